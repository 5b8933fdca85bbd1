#ifndef UCUDNN_SOLVER_LIMITS_H_
#define UCUDNN_SOLVER_LIMITS_H_

// How much work an exact search may do before it answers with the best it has
// found and the bound it has proven. Nodes, not seconds, so that the same
// input gives the same plan on every machine; who wants a time limit requests
// the stop from a thread of their own.

#include <cstdint>
#include <stop_token>

namespace ucudnn {

struct Limits {
  // Partial solutions that may be made; about 120 bytes each.
  std::int64_t max_nodes = 10'000'000;
  // Looked at between steps; an answer follows within milliseconds.
  std::stop_token stop;
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_LIMITS_H_
