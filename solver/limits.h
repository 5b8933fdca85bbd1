#ifndef UCUDNN_SOLVER_LIMITS_H_
#define UCUDNN_SOLVER_LIMITS_H_

// How much work an exact search may do before it returns the best solution it
// has found and the bound it has proven. The limit counts nodes, not seconds,
// so the same input gives the same plan on every machine. For a time limit,
// request the stop from another thread.

#include <cstdint>
#include <stop_token>

namespace ucudnn {

struct Limits {
  // Partial solutions to create at most; about 120 bytes each.
  std::int64_t max_nodes = 10'000'000;
  // Checked between steps; the search returns within milliseconds.
  std::stop_token stop;
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_LIMITS_H_
