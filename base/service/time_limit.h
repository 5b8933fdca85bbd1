#ifndef UCUDNN_BASE_SERVICE_TIME_LIMIT_H_
#define UCUDNN_BASE_SERVICE_TIME_LIMIT_H_

// The clock that solvers do not have: ends a search after a time.
//
//   const TimeLimit limit(std::chrono::seconds(60), StopOnSignals());
//   Allocate(buffers, options, {.stop = limit.token()});

#include <chrono>
#include <stop_token>
#include <thread>

namespace ucudnn {

// Seconds, not negative, rounded up to milliseconds.
std::chrono::milliseconds RoundUpSeconds(double seconds);

class TimeLimit {
 public:
  // Stop is requested after `time`, or when it is requested of `outer`.
  explicit TimeLimit(std::chrono::milliseconds time,
                     const std::stop_token& outer = {});

  std::stop_token token() const { return stop_.get_token(); }

 private:
  struct Forward {
    void operator()() { stop.request_stop(); }
    std::stop_source stop;
  };

  std::stop_source stop_;
  std::stop_callback<Forward> forward_;
  std::jthread timer_;  // ends with this object
};

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_TIME_LIMIT_H_
