#ifndef UCUDNN_BASE_SERVICE_BACKOFF_H_
#define UCUDNN_BASE_SERVICE_BACKOFF_H_

// How long to wait before trying again.

#include <chrono>
#include <stop_token>

namespace ucudnn {

using Milliseconds = std::chrono::milliseconds;

// Uniform in [0, 1), seeded anew in each thread.
double Chance();

// How long those take to come back together that lost a coordinator at the same
// moment: thousands at once would be too many for it.
inline constexpr Milliseconds kReconnectSpread{5'000};

// Any part of `most`.
Milliseconds PartOf(Milliseconds most, double chance = Chance());

// Waits for `time`, or until a stop is requested.
void Pause(const std::stop_token& stop, Milliseconds time);

// Waits twice as long after each failure, up to a limit. Not thread-safe.
class Backoff {
 public:
  explicit Backoff(Milliseconds first = Milliseconds(200),
                   Milliseconds limit = Milliseconds(10'000))
      : first_(first), limit_(limit), next_(first) {}

  // Between half of the current step and the whole of it, so that many waiters
  // spread out.
  Milliseconds Next(double chance = Chance());
  // Call after a success.
  void Reset() { next_ = first_; }

 private:
  Milliseconds first_;
  Milliseconds limit_;
  Milliseconds next_;
};

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_BACKOFF_H_
