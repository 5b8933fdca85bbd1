#ifndef UCUDNN_SOLVER_KNAPSACK_SCRATCH_H_
#define UCUDNN_SOLVER_KNAPSACK_SCRATCH_H_

// Memory for what lives no longer than a call: taken from the stack while it
// suffices, from the heap beyond. A solver that answers within microseconds
// would otherwise spend a good part of them allocating.
//
//   Scratch<16 << 10> scratch;
//   std::pmr::vector<int> numbers(&scratch);
//
// What was taken from the stack is not used again, but memory of the heap is.
// Not thread-safe; must outlive what it gives.

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <memory_resource>

namespace ucudnn {

template <std::size_t kBytes>
class Scratch final : public std::pmr::memory_resource {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* at = next_;
    std::size_t left = static_cast<std::size_t>(end() - next_);
    if (std::align(alignment, bytes, at, left) != nullptr) {
      next_ = static_cast<std::byte*>(at) + bytes;
      return at;
    }
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* at, std::size_t bytes,
                     std::size_t alignment) override {
    const std::less<const void*> before;
    if (!before(at, buffer_.data()) && before(at, end())) return;
    std::pmr::new_delete_resource()->deallocate(at, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override {
    return this == &other;
  }
  std::byte* end() { return buffer_.data() + kBytes; }

  alignas(std::max_align_t) std::array<std::byte, kBytes> buffer_;
  std::byte* next_ = buffer_.data();
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_KNAPSACK_SCRATCH_H_
