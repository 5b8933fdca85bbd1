#ifndef UCUDNN_BASE_SERVICE_RATE_LIMIT_H_
#define UCUDNN_BASE_SERVICE_RATE_LIMIT_H_

// Keeps what may happen a thousand times a second from filling the log.
//
//   if (const auto left_out = limit.Allow("agent_gone", clock.SteadyMs())) {
//     spdlog::warn("event=agent_gone ... left_out={}", *left_out);
//   }

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace ucudnn {

// Allows each key so many lines in each interval. Keys are kept, so there must
// be few. Thread-safe.
class RateLimit {
 public:
  RateLimit(int lines, std::int64_t interval_ms)
      : lines_(lines), interval_ms_(interval_ms) {}

  // Whether a line of this key may be written: if so, how many were left out
  // since the last one.
  std::optional<std::int64_t> Allow(const std::string& key,
                                    std::int64_t steady_ms);

 private:
  struct Window {
    std::int64_t began_ms = 0;
    int lines = 0;
    std::int64_t left_out = 0;
  };

  const int lines_;
  const std::int64_t interval_ms_;
  std::mutex mutex_;
  std::map<std::string, Window> windows_;
};

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_RATE_LIMIT_H_
