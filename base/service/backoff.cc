#include "base/service/backoff.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <random>

namespace ucudnn {

double Chance() {
  thread_local std::mt19937_64 engine{std::random_device{}()};
  return std::uniform_real_distribution<double>()(engine);
}

Milliseconds PartOf(Milliseconds most, double chance) {
  return Milliseconds(static_cast<Milliseconds::rep>(
      chance * static_cast<double>(most.count())));
}

void Pause(const std::stop_token& stop, Milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, time, [] { return false; });
}

Milliseconds Backoff::Next(double chance) {
  const Milliseconds step = next_;
  next_ = std::min(next_ * 2, limit_);
  return PartOf(step, 0.5 + chance / 2);
}

}  // namespace ucudnn
