#ifndef UCUDNN_COORDINATOR_MEASURING_MEASURING_H_
#define UCUDNN_COORDINATOR_MEASURING_MEASURING_H_

// Has devices measure what a plan is made from.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "coordinator/measuring/plan_inputs.h"
#include "coordinator/stores.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// What a request does about what is missing.
struct MeasureOptions {
  bool dry_run = false;  // only looks
  bool retry_failed = false;
  bool retry_cancelled = false;
  bool wait_for_device = false;  // asks also kinds without a device online
};

// kFailedPrecondition if something is missing of a kind that has no device:
// none online or, if `may_return`, none that was ever online.
Status CheckDevices(Store& store, const PlanInputs& inputs, bool may_return,
                    UnixMillis now_ms);

// The error of CheckOpen (measuring/task_store.h), before anything is enqueued,
// if the asker may not have opened all the tasks that the request needs.
Status CheckQueue(TaskStore& tasks, const MeasureOptions& options,
                  const PlanInputs& inputs, const Asker& asker,
                  UnixMillis now_ms);

// The keys of the tasks for these needs.
std::vector<TaskKey> KeysOf(std::span<const Need> needs);

// Enqueues what is missing for the asker, unless it is a dry run, and returns
// the progress of all measurements. Algorithms are measured up to
// `max_workspace` or the request's larger limit. Once all needs are measured,
// adds the batches that the plan would give to ranks to `inputs->needs`.
Result<v1::MeasureProgress> MeasureNeeds(Store& store, Bytes max_workspace,
                                         UnixMillis now_ms,
                                         const MeasureOptions& options,
                                         const Asker& asker,
                                         PlanInputs* inputs);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_MEASURING_MEASURING_H_
