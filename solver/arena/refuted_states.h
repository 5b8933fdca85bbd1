#ifndef UCUDNN_SOLVER_ARENA_REFUTED_STATES_H_
#define UCUDNN_SOLVER_ARENA_REFUTED_STATES_H_

// States that lead nowhere, by 64-bit keys: a table that grows and then forgets
// what collides.

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ucudnn {

class RefutedStates {
 public:
  // Keys are not 0 and as good as random.
  bool Has(std::uint64_t key) const { return keys_[Place(key)] == key; }

  void Add(std::uint64_t key) {
    if (++added_ > keys_.size() / 2 && keys_.size() < kMost) Grow();
    keys_[Place(key)] = key;
  }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 22;

  std::size_t Place(std::uint64_t key) const {
    return key & (keys_.size() - 1);
  }

  void Grow() {
    std::vector<std::uint64_t> old(keys_.size() * 4);
    std::swap(old, keys_);
    for (const std::uint64_t key : old) keys_[Place(key)] = key;
  }

  std::vector<std::uint64_t> keys_ =
      std::vector<std::uint64_t>(std::size_t{1} << 12);
  std::size_t added_ = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ARENA_REFUTED_STATES_H_
