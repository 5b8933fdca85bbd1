#ifndef UCUDNN_COORDINATOR_PLANS_PLAN_USES_H_
#define UCUDNN_COORDINATOR_PLANS_PLAN_USES_H_

// Which plans were asked for, each once a day, until that is written.

#include <cstdint>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "coordinator/store/unix_millis.h"

namespace ucudnn {

// Thread-safe.
class PlanUses {
 public:
  void Note(std::int64_t plan, UnixMillis now_ms) {
    constexpr std::int64_t kDayMs = 24 * 3'600'000;
    const std::lock_guard lock(mutex_);
    if (day_ != now_ms / kDayMs) today_.clear();
    day_ = now_ms / kDayMs;
    if (today_.insert(plan).second) unwritten_.push_back(plan);
  }

  std::vector<std::int64_t> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(unwritten_, {});
  }

  // Of Take, if they could not be written.
  void PutBack(const std::vector<std::int64_t>& plans) {
    const std::lock_guard lock(mutex_);
    unwritten_.insert(unwritten_.end(), plans.begin(), plans.end());
  }

 private:
  std::mutex mutex_;
  std::int64_t day_ = 0;
  std::set<std::int64_t> today_;
  std::vector<std::int64_t> unwritten_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANS_PLAN_USES_H_
