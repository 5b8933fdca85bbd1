#ifndef UCUDNN_SOLVER_ARENA_BEST_FIT_H_
#define UCUDNN_SOLVER_ARENA_BEST_FIT_H_

// Greedy placement: fast, and often optimal where lifetimes are simple.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ucudnn {

// A buffer of a static allocation, live in [begin, end).
struct Block {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size = 0;

  std::int64_t length() const { return end - begin; }
};

struct Placement {
  std::vector<std::int64_t> offsets;  // of each block
  std::int64_t pool = 0;
};

// Places blocks in the order given, each at the lowest offset at which it fits.
// O(blocks^2) time.
Placement PlaceInOrder(std::span<const Block> blocks,
                       std::span<const std::size_t> order);

// The smallest pool of several orders: by size, area, length, and begin. Stops
// at a pool of `enough`.
Placement PlaceGreedily(std::span<const Block> blocks, std::int64_t enough);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ARENA_BEST_FIT_H_
