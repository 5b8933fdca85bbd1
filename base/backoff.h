#ifndef UCUDNN_BASE_BACKOFF_H_
#define UCUDNN_BASE_BACKOFF_H_

// How long to wait before trying again: twice as long after each failure, up
// to a limit, and jittered so that many waiters spread out. Not thread-safe.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

namespace ucudnn {

class Backoff {
 public:
  using Duration = std::chrono::milliseconds;

  explicit Backoff(std::uint64_t seed, Duration first = Duration(200),
                   Duration limit = Duration(10'000))
      : random_(seed), first_(first), limit_(limit), next_(first) {}

  // Between half of the current step and the whole of it.
  Duration Next() {
    const Duration step = next_;
    next_ = std::min(next_ * 2, limit_);
    std::uniform_int_distribution<std::int64_t> pick(step.count() / 2,
                                                     step.count());
    return Duration(pick(random_));
  }
  // After a success.
  void Reset() { next_ = first_; }

 private:
  std::mt19937_64 random_;
  Duration first_;
  Duration limit_;
  Duration next_;
};

}  // namespace ucudnn

#endif  // UCUDNN_BASE_BACKOFF_H_
