#ifndef UCUDNN_COORDINATOR_PLANS_PLAN_CACHE_H_
#define UCUDNN_COORDINATOR_PLANS_PLAN_CACHE_H_

// Stored plans as gRPC sends them. A plan never changes, but may be deleted,
// also by another coordinator: whoever sees that clears the cache. It gives out
// nothing unless somebody has lately looked for deletions.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "coordinator/plans/lru_cache.h"

namespace ucudnn {

// A serialised v1::Plan.
using PlanBytes = std::shared_ptr<const std::string>;

// Thread-safe.
class PlanCache {
 public:
  // How long after the last look for deletions plans are given out.
  static constexpr std::int64_t kTrustedMs = 5'000;

  explicit PlanCache(std::size_t max_bytes) : plans_(max_bytes) {}

  // Null if it has no such plan. `now_ms` is of a monotonic clock.
  PlanBytes Find(std::int64_t id, std::int64_t now_ms) {
    {
      const std::lock_guard lock(mutex_);
      if (now_ms >= trusted_until_ms_) return nullptr;
    }
    return plans_.Find(id);
  }

  // Tells of how many plans were ever deleted from the database, as of
  // `now_ms`.
  void Deleted(std::int64_t count, std::int64_t now_ms) {
    const std::lock_guard lock(mutex_);
    trusted_until_ms_ = now_ms + kTrustedMs;
    if (std::exchange(deleted_, count) != count) Drop();
  }
  void Clear() {
    const std::lock_guard lock(mutex_);
    Drop();
  }

  // To be taken before a plan is read that is to be kept.
  std::int64_t Moment() const {
    const std::lock_guard lock(mutex_);
    return cleared_;
  }
  // Keeps the plan unless the cache was cleared since `moment`: then it may
  // have been deleted.
  void Put(std::int64_t id, PlanBytes plan, std::int64_t moment) {
    const std::lock_guard lock(mutex_);
    if (moment != cleared_) return;
    const std::size_t size = plan->size();
    plans_.Put(id, std::move(plan), size);
  }

 private:
  // With mutex_ held.
  void Drop() {
    ++cleared_;
    plans_.Clear();
  }

  mutable std::mutex mutex_;
  std::int64_t deleted_ = 0;
  std::int64_t cleared_ = 0;  // how often
  std::int64_t trusted_until_ms_ = 0;
  LruCache<std::int64_t, std::string> plans_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANS_PLAN_CACHE_H_
