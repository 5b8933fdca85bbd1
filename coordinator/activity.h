#ifndef UCUDNN_COORDINATOR_ACTIVITY_H_
#define UCUDNN_COORDINATOR_ACTIVITY_H_

// What a coordinator counts of what it does, for its metrics. Thread-safe.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace ucudnn {

// The running jobs, as they were when the coordinator looked at them last.
struct JobGauges {
  std::int64_t drifting = 0;
  std::int64_t silent_ranks = 0;
  std::int64_t proposals = 0;          // that await acceptance
  std::int64_t with_idle_devices = 0;  // that they would gain by
  // How the ranks' median steps compare with their predicted convolutions: 1.2
  // is a fifth longer. 0 if nothing is known.
  double median_over_predicted = 0;
  double largest_over_predicted = 0;
};

// Sorts the ratios of all ranks into `gauges`.
inline void AddRatios(std::vector<double> ratios, JobGauges* gauges) {
  if (ratios.empty()) return;
  std::ranges::sort(ratios);
  gauges->median_over_predicted = ratios[ratios.size() / 2];
  gauges->largest_over_predicted = ratios.back();
}

class Activity {
 public:
  std::atomic<std::int64_t> agents_lost = 0;
  std::atomic<std::int64_t> heartbeats_refused = 0;  // too many at once
  std::atomic<std::int64_t> jobs_lost = 0;
  std::atomic<std::int64_t> steps_reported = 0;
  std::atomic<std::int64_t> revisions_proposed = 0;

  void SetJobs(const JobGauges& jobs) {
    const std::lock_guard lock(mutex_);
    jobs_ = jobs;
  }
  JobGauges jobs() const {
    const std::lock_guard lock(mutex_);
    return jobs_;
  }

 private:
  mutable std::mutex mutex_;
  JobGauges jobs_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_ACTIVITY_H_
