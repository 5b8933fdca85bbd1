#include "base/service/time_limit.h"

#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace ucudnn {
namespace {

void Await(const std::stop_token& quit, std::chrono::milliseconds time,
           std::stop_source stop) {
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  ended.wait_for(lock, quit, time, [] { return false; });
  stop.request_stop();
}

}  // namespace

std::chrono::milliseconds RoundUpSeconds(double seconds) {
  return std::chrono::milliseconds(
      static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

TimeLimit::TimeLimit(std::chrono::milliseconds time,
                     const std::stop_token& outer)
    : forward_(outer, Forward{stop_}), timer_(Await, time, stop_) {}

}  // namespace ucudnn
