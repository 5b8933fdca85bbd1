#include "client/training/stretch_order.h"

#include <algorithm>

#include "solver/memory/lanes.h"

namespace ucudnn {
namespace {

using Ranges = std::vector<UsedMemory::Range>;

bool Overlap(const Ranges& a, const Ranges& b) {
  return std::ranges::any_of(a, [&](const UsedMemory::Range& x) {
    return std::ranges::any_of(b, [&](const UsedMemory::Range& y) {
      return std::max(x.begin, y.begin) <
             std::min(x.begin + x.bytes.count(), y.begin + y.bytes.count());
    });
  });
}

}  // namespace

bool MustFollow(const UsedMemory& earlier, const UsedMemory& later) {
  return (earlier.shares && later.shares) ||
         Overlap(earlier.writes, later.writes) ||
         Overlap(earlier.writes, later.reads) ||
         Overlap(earlier.reads, later.writes);
}

std::vector<std::vector<std::size_t>> OrderOf(
    std::span<const UsedMemory> tasks, std::span<const std::size_t> lanes) {
  TaskOrder order;
  std::vector<std::vector<std::size_t>> after;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    order.Add([&](std::size_t other) {
      return lanes[other] == lanes[i] || MustFollow(tasks[other], tasks[i]);
    });
    after.push_back(order.After(i));
  }
  return after;
}

}  // namespace ucudnn
