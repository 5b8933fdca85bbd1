#ifndef UCUDNN_SOLVER_MEMORY_RANGE_OWNERS_H_
#define UCUDNN_SOLVER_MEMORY_RANGE_OWNERS_H_

// Who last had each byte of a pool.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace ucudnn {

class RangeOwners {
 public:
  // Gives [low, high) to `owner`; returns those that had any of it last, each
  // at least once. O(log ranges + ranges taken over).
  std::vector<std::size_t> Claim(std::int64_t low, std::int64_t high,
                                 std::size_t owner) {
    std::vector<std::size_t> previous;
    if (low >= high) return previous;
    auto it = ranges_.lower_bound(low);
    if (it != ranges_.begin()) {
      const auto before = std::prev(it);
      if (before->second.high > low) it = before;
    }
    std::vector<std::pair<std::int64_t, Range>> kept;
    while (it != ranges_.end() && it->first < high) {
      const Range range = it->second;
      previous.push_back(range.owner);
      if (it->first < low) kept.push_back({it->first, {low, range.owner}});
      if (range.high > high) kept.push_back({high, {range.high, range.owner}});
      it = ranges_.erase(it);
    }
    for (const auto& [start, range] : kept) ranges_[start] = range;
    ranges_[low] = {high, owner};
    return previous;
  }

 private:
  struct Range {
    std::int64_t high;
    std::size_t owner;
  };
  std::map<std::int64_t, Range> ranges_;  // by their start; disjoint
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_RANGE_OWNERS_H_
