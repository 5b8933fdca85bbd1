#ifndef UCUDNN_COORDINATOR_MEASURING_CROSS_CHECKING_H_
#define UCUDNN_COORDINATOR_MEASURING_CROSS_CHECKING_H_

// Has devices measure cross-checks and compares the results
// (planning/cross_checks.h). All idle devices ask for cross-checks again and
// again, and every report of a task asks whether to add one, so a kind's
// cross-checks are kept here until the store counts a change of them.

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "coordinator/planning/cross_checks.h"
#include "coordinator/stores.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// The devices of `kind`, each compared with the others.
Result<std::vector<DeviceComparison>> CompareKind(
    MeasurementStore& measurements, const std::string& kind);

// Thread-safe.
class CrossChecking {
 public:
  // The store must outlive this.
  explicit CrossChecking(Store& store) : store_(store) {}

  // Adds to `response` up to `max_count` cross-checks that the device has to
  // measure before any task.
  Status Lease(const DeviceRecord& device, int max_count, UnixMillis now_ms,
               v1::LeaseTasksResponse* response);

  // TaskStore::CompleteTask with a cross-check, if one of the points is to be
  // one. The completion names its kind and problem.
  Result<CompletionResult> Complete(TaskCompletion completion);

  // Stores a device's report of a cross-check and logs which devices deviate
  // now and which no longer do.
  Status Report(const v1::ReportTaskRequest& request, UnixMillis now_ms);

  // Forgets what is kept of kinds that the store counts otherwise: another
  // coordinator changed them.
  void LookAt(const ChangeCounts& counts);

 private:
  // What is kept of a kind.
  struct Kept {
    std::int64_t count = 0;  // ChangeCounts::cross_checks
    KindCrossChecks checks;
    // Of which measurements are each device's, by position.
    std::map<std::string, std::vector<std::size_t>> of_device;
    // How many there are of each operation and precision.
    std::map<CheckedWork, std::ptrdiff_t> alike;
    std::vector<DeviceComparison> compared;
    std::size_t new_since = 0;  // measurements added since they were compared
    std::int64_t sequence = 0;  // of the last measurement

    void Add(CrossCheckMeasurement measurement);
    bool suspicion() const;
  };

  // With mutex_ held. What is kept of the kind, loaded if nothing is.
  Result<Kept*> Keep(const std::string& kind);

  Store& store_;
  std::mutex mutex_;
  std::map<std::string, Kept> kept_;  // by kind
  // By kind, the comparison that the log tells of. What is kept may be loaded
  // again between a measurement and its comparison.
  std::map<std::string, std::vector<DeviceComparison>> told_;
};

// For people: how many of the measurements of `problems` come from deviating
// devices of `kinds`.
Result<std::vector<std::string>> DoubtsAbout(
    MeasurementStore& measurements, const std::set<std::string>& kinds,
    const std::set<std::string>& problems);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_MEASURING_CROSS_CHECKING_H_
