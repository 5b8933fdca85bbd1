#ifndef UCUDNN_COORDINATOR_CONTEXT_H_
#define UCUDNN_COORDINATOR_CONTEXT_H_

// What the services of a coordinator share: its options, store and clock, and
// what it counts for its metrics.

#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/service/clock.h"
#include "base/service/log.h"
#include "base/service/rate_limit.h"
#include "coordinator/activity.h"
#include "coordinator/options.h"
#include "coordinator/stores.h"

namespace ucudnn {

// Thread-safe. Store and clock must outlive it.
class Context {
 public:
  Context(CoordinatorOptions options, Store& its_store, const Clock& its_clock)
      : store(its_store),
        clock(its_clock),
        options_(
            std::make_shared<const CoordinatorOptions>(std::move(options))) {}

  // Calls that begin from now on go by these options.
  void Reconfigure(CoordinatorOptions options) {
    options_ = std::make_shared<const CoordinatorOptions>(std::move(options));
  }
  std::shared_ptr<const CoordinatorOptions> options() const { return options_; }

  // Writes that an agent or a job is lost, unless too many are.
  void LogLost(const char* event, const char* what, const std::string& id,
               std::int64_t silent_for_ms) {
    const auto left_out = log_limit.Allow(event, clock.SteadyMs());
    if (!left_out) return;
    spdlog::warn("event={} {}={} silent_for_ms={} left_out={}", event, what,
                 Quoted(id), silent_for_ms, *left_out);
  }

  Store& store;
  const Clock& clock;
  Activity activity;
  RateLimit log_limit{20, 10'000};  // by event

 private:
  std::atomic<std::shared_ptr<const CoordinatorOptions>> options_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_CONTEXT_H_
