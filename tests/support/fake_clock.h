#ifndef UCUDNN_TESTS_SUPPORT_FAKE_CLOCK_H_
#define UCUDNN_TESTS_SUPPORT_FAKE_CLOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/service/clock.h"

namespace ucudnn {

class FakeClock final : public Clock {
 public:
  explicit FakeClock(std::int64_t now_ms) : now_ms_(now_ms) {}
  std::int64_t NowMs() const override { return now_ms_; }
  std::int64_t SteadyMs() const override { return steady_ms_; }
  void Advance(std::chrono::milliseconds by) {
    now_ms_ += by.count();
    steady_ms_ += by.count();
  }
  // Sets the wall clock, without time going by.
  void Jump(std::chrono::milliseconds by) { now_ms_ += by.count(); }

 private:
  std::atomic<std::int64_t> now_ms_;
  std::atomic<std::int64_t> steady_ms_ = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_SUPPORT_FAKE_CLOCK_H_
