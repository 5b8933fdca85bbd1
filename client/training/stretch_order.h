#ifndef UCUDNN_CLIENT_TRAINING_STRETCH_ORDER_H_
#define UCUDNN_CLIENT_TRAINING_STRETCH_ORDER_H_

// Which tasks of a stretch must follow which, from the memory that they use: so
// whatever plan they come from, they may run at once as far as this allows.

#include <cstddef>
#include <span>
#include <vector>

#include "base/units.h"

namespace ucudnn {

// What a task uses of the device's memory.
struct UsedMemory {
  struct Range {
    const char* begin = nullptr;
    Bytes bytes;
  };
  std::vector<Range> reads = {};
  std::vector<Range> writes = {};  // its workspace among them
  // Uses what all such tasks share beside their blocks.
  bool shares = false;
};

// Whether the later one must not start before the earlier one has ended: one
// writes what the other one uses, or both share something.
bool MustFollow(const UsedMemory& earlier, const UsedMemory& later);

// For each task those of the earlier ones that it follows directly: as it must,
// or because it has the same lane. By their places in the list.
std::vector<std::vector<std::size_t>> OrderOf(
    std::span<const UsedMemory> tasks, std::span<const std::size_t> lanes);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_TRAINING_STRETCH_ORDER_H_
