#ifndef UCUDNN_COORDINATOR_JOBS_IDLE_DEVICES_H_
#define UCUDNN_COORDINATOR_JOBS_IDLE_DEVICES_H_

// Idle devices on the nodes of running jobs, and what a job would gain if it
// were started again with them: a running job cannot take them (ADR 40).

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "coordinator/agents/agent_store.h"

namespace ucudnn {

// How many idle devices of each kind there are on the nodes of `devices` that
// are not `taken`.
inline std::map<std::string, std::int64_t> IdleBeside(
    const std::set<std::string>& devices, const std::set<std::string>& taken,
    std::span<const DeviceRecord> all) {
  std::set<std::string> nodes;
  for (const DeviceRecord& device : all) {
    if (devices.contains(device.id)) nodes.insert(device.agent);
  }
  std::map<std::string, std::int64_t> idle;
  for (const DeviceRecord& device : all) {
    if (nodes.contains(device.agent) && device.state == DeviceState::kIdle &&
        !device.hold && !taken.contains(device.id)) {
      ++idle[ToString(device.kind)];
    }
  }
  return idle;
}

struct GainByIdle {
  std::string kind;
  std::int64_t count = 0;
  Nanoseconds now{0};        // of a step's convolutions, as the job runs
  Nanoseconds predicted{0};  // with these devices too
};

// What was found for each job, and from what, since it takes a plan to find
// out. Thread-safe.
class IdleAdvice {
 public:
  std::vector<GainByIdle> Of(const std::string& job) const {
    const std::lock_guard lock(mutex_);
    const auto found = jobs_.find(job);
    return found == jobs_.end() ? std::vector<GainByIdle>()
                                : found->second.idle;
  }
  // Whether it was found from this.
  bool IsFrom(const std::string& job, const std::string& inputs) const {
    const std::lock_guard lock(mutex_);
    const auto found = jobs_.find(job);
    return found != jobs_.end() && found->second.inputs == inputs;
  }
  void Set(const std::string& job, std::string inputs,
           std::vector<GainByIdle> idle) {
    const std::lock_guard lock(mutex_);
    jobs_[job] = {std::move(inputs), std::move(idle)};
  }
  // Forgets what was found for other jobs; returns for how many of these there
  // are such devices.
  std::int64_t Keep(const std::set<std::string>& jobs) {
    const std::lock_guard lock(mutex_);
    std::erase_if(jobs_,
                  [&](const auto& job) { return !jobs.contains(job.first); });
    std::int64_t with_idle = 0;
    for (const auto& [id, found] : jobs_)
      with_idle += found.idle.empty() ? 0 : 1;
    return with_idle;
  }

 private:
  struct Found {
    std::string inputs;
    std::vector<GainByIdle> idle;
  };
  mutable std::mutex mutex_;
  std::map<std::string, Found> jobs_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_JOBS_IDLE_DEVICES_H_
