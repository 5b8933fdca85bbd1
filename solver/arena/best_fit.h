#ifndef UCUDNN_SOLVER_ARENA_BEST_FIT_H_
#define UCUDNN_SOLVER_ARENA_BEST_FIT_H_

// Greedy placement: fast, and often optimal if lifetimes are simple.

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

namespace ucudnn {

// A buffer of a static allocation, live in [begin, end).
struct Block {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size = 0;
};

struct Placement {
  std::vector<std::int64_t> offsets;  // of each block
  std::int64_t pool = 0;
};

// Places each block at the lowest offset at which it fits, in several orders
// (by size, area, length, begin, end), and returns the smallest pool. Stops at
// a pool of `enough`, or after the first order when `stop` is requested.
// O(blocks^2) time; with more than 4096 blocks it tries only the order by
// begin, in O(blocks * most live at once).
Placement PlaceGreedily(std::span<const Block> blocks, std::int64_t enough,
                        const std::stop_token& stop);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ARENA_BEST_FIT_H_
