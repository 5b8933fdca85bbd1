#ifndef UCUDNN_COORDINATOR_REQUEST_LOG_H_
#define UCUDNN_COORDINATOR_REQUEST_LOG_H_

// Lines about requests: those that failed through no fault of their own, that
// were refused, or that took long. Each sort of line, by method and outcome, is
// limited in its rate. Thread-safe.
//
//   event=request_failed method=GetPlan code=UNAVAILABLE took_ms=12
//     from="10.0.0.7" why="..." left_out=0

#include <chrono>
#include <string>

#include "base/result.h"
#include "base/service/rate_limit.h"

namespace ucudnn {

class RequestLog {
 public:
  // `from` names the caller. A call that may compute for long is not slow.
  void Add(const std::string& method, const std::string& from,
           const Status& outcome, std::chrono::nanoseconds took, bool may_last);

 private:
  static constexpr int kLines = 5;
  static constexpr std::int64_t kIntervalMs = 10'000;
  RateLimit limit_{kLines, kIntervalMs};
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_REQUEST_LOG_H_
