#include "device/cudnn/driver/own_processes.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <set>

namespace ucudnn::cudnn {
namespace {

class ProcessIds {
 public:
  void Add(std::int64_t pid) {
    const std::lock_guard lock(mutex_);
    pids_.insert(pid);
  }
  bool Has(std::int64_t pid) const {
    const std::lock_guard lock(mutex_);
    return pids_.contains(pid);
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::int64_t> pids_ = {getpid()};
};

ProcessIds& OurPids() {
  static ProcessIds pids;
  return pids;
}

}  // namespace

bool IsOwnProcess(const GpuProcess& process) {
  return OurPids().Has(process.pid);
}

void LearnOwnProcess(const Result<std::vector<GpuProcess>>& before,
                     const Result<std::vector<GpuProcess>>& after) {
  if (!before || !after) return;
  std::vector<std::int64_t> appeared;
  for (const GpuProcess& process : *after) {
    if (IsOwnProcess(process)) return;
    const bool was_there =
        std::any_of(before->begin(), before->end(),
                    [&](const GpuProcess& p) { return p.pid == process.pid; });
    if (!was_there) appeared.push_back(process.pid);
  }
  if (appeared.size() == 1) OurPids().Add(appeared.front());
}

}  // namespace ucudnn::cudnn
