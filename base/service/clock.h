#ifndef UCUDNN_BASE_SERVICE_CLOCK_H_
#define UCUDNN_BASE_SERVICE_CLOCK_H_

// The services' clocks, which tests replace.

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

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_CLOCK_H_
