#ifndef UCUDNN_BASE_SERVICE_CLOCK_H_
#define UCUDNN_BASE_SERVICE_CLOCK_H_

// The services' clocks, which tests can replace.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace ucudnn {

class Clock {
 public:
  virtual ~Clock() = default;
  // Unix time in milliseconds, for people: it jumps when somebody sets the
  // clock, and differs between hosts. Thread-safe.
  virtual std::int64_t NowMs() const = 0;
  // Milliseconds since some moment, never set by anybody. For how long
  // something takes. Thread-safe.
  virtual std::int64_t SteadyMs() const = 0;
};

class SystemClock final : public Clock {
 public:
  std::int64_t NowMs() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  std::int64_t SteadyMs() const override {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

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

#endif  // UCUDNN_BASE_SERVICE_CLOCK_H_
