#include "coordinator/request_log.h"

#include <spdlog/spdlog.h>

#include "base/service/log.h"

namespace ucudnn {
namespace {

constexpr std::chrono::seconds kSlow{1};

// The event that an outcome is; empty if it is not worth a line.
std::string EventOf(const Status& outcome, bool slow) {
  if (outcome) return slow ? "request_slow" : "";
  switch (outcome.error().code) {
    case Code::kUnknown:
    case Code::kDeadlineExceeded:
    case Code::kResourceExhausted:
    case Code::kInternal:
    case Code::kDataLoss:
    case Code::kUnavailable:
      return "request_failed";
    case Code::kPermissionDenied:
    case Code::kUnauthenticated:
      return "request_refused";
    default:
      return slow ? "request_slow" : "";
  }
}

}  // namespace

void RequestLog::Add(const std::string& method, const std::string& from,
                     const Status& outcome, std::chrono::nanoseconds took,
                     bool may_last) {
  const std::string event = EventOf(outcome, took >= kSlow && !may_last);
  if (event.empty()) return;
  const std::string code(outcome ? "OK" : CodeName(outcome.error().code));
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now().time_since_epoch());
  const auto left_out =
      limit_.Allow(event + " " + method + " " + code, now.count());
  if (!left_out) return;
  spdlog::warn(
      "event={} method={} code={} took_ms={} from={} why={} left_out={}", event,
      method, code,
      std::chrono::duration_cast<std::chrono::milliseconds>(took).count(),
      Quoted(from), Quoted(outcome ? "" : outcome.error().message), *left_out);
}

}  // namespace ucudnn
