#include "base/service/rate_limit.h"

#include <utility>

namespace ucudnn {

std::optional<std::int64_t> RateLimit::Allow(const std::string& key,
                                             std::int64_t steady_ms) {
  const std::lock_guard lock(mutex_);
  const auto [found, added] = windows_.try_emplace(key);
  Window& window = found->second;
  if (added || steady_ms - window.began_ms >= interval_ms_) {
    window.began_ms = steady_ms;
    window.lines = 0;
  }
  if (window.lines == lines_) {
    ++window.left_out;
    return std::nullopt;
  }
  ++window.lines;
  return std::exchange(window.left_out, 0);
}

}  // namespace ucudnn
