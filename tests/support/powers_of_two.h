#ifndef UCUDNN_TESTS_SUPPORT_POWERS_OF_TWO_H_
#define UCUDNN_TESTS_SUPPORT_POWERS_OF_TWO_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace ucudnn::test {

// The least time of all divisions of a mini-batch into powers of two, by
// exhaustive search.
class PowersOfTwo {
 public:
  // Micro-batches of up to `largest` images, a power of two.
  explicit PowersOfTwo(std::int64_t largest)
      : fastest_(LogOf(largest) + 1, std::int64_t{1} << 50) {}

  // `batch` is a power of two.
  void Add(std::int64_t batch, std::int64_t time) {
    std::int64_t& fastest = fastest_.at(LogOf(batch));
    fastest = std::min(fastest, time);
  }

  std::int64_t Fastest(std::int64_t batch) const {
    return fastest_.at(LogOf(batch));
  }

  std::int64_t TryAll(std::int64_t images) const {
    return TryAll(fastest_.size() - 1, images);
  }

 private:
  static std::size_t LogOf(std::int64_t batch) {
    return static_cast<std::size_t>(
        std::countr_zero(static_cast<std::uint64_t>(batch)));
  }

  // With micro-batches of up to 2^log images.
  std::int64_t TryAll(std::size_t log, std::int64_t images) const {
    if (log == 0) return images * fastest_[0];
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t n = 0; (n << log) <= images; ++n) {
      best = std::min(best,
                      n * fastest_[log] + TryAll(log - 1, images - (n << log)));
    }
    return best;
  }

  std::vector<std::int64_t> fastest_;  // by the logarithm of the batch
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_POWERS_OF_TWO_H_
