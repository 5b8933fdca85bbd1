#ifndef UCUDNN_COORDINATOR_CROSS_CHECKING_H_
#define UCUDNN_COORDINATOR_CROSS_CHECKING_H_

// Has devices measure cross-checks and compares the results
// (planning/cross_checks.h).

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/planning/cross_checks.h"
#include "coordinator/store/agents.h"
#include "coordinator/store/measurements.h"
#include "coordinator/store/tasks.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// The devices of `kind`, each compared with the others.
Result<std::vector<DeviceComparison>> CompareKind(Measurements& measurements,
                                                  const std::string& kind);

// Adds to `response` up to `max_count` cross-checks that the device has to
// measure before any task.
Status LeaseCrossChecks(Measurements& measurements, const DeviceRecord& device,
                        int max_count, UnixMillis now_ms,
                        v1::LeaseTasksResponse* response);

// The point of the completion, which names its kind and problem, to
// cross-check, if any.
Result<std::optional<CrossCheck>> CrossCheckFor(
    Measurements& measurements, const TaskCompletion& completion);

// Stores a device's report of a cross-check and logs which devices deviate now
// and which no longer do.
Status ReportCrossCheck(Agents& agents, Measurements& measurements,
                        const v1::ReportTaskRequest& request,
                        UnixMillis now_ms);

// For people: how many of the measurements of `problems` come from deviating
// devices of `kinds`.
Result<std::vector<std::string>> DoubtsAbout(
    Measurements& measurements, const std::set<std::string>& kinds,
    const std::set<std::string>& problems);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_CROSS_CHECKING_H_
