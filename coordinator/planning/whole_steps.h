#ifndef UCUDNN_COORDINATOR_PLANNING_WHOLE_STEPS_H_
#define UCUDNN_COORDINATOR_PLANNING_WHOLE_STEPS_H_

// What makes plans' times those of whole steps: the measured times of the tasks
// that are not convolutions (base/other_tasks.h). Pure functions.

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/network.h"
#include "base/plan/job_plan.h"
#include "base/profile.h"
#include "base/training/graph.h"
#include "base/units.h"
#include "coordinator/networks/network_store.h"

namespace ucudnn {

// The tasks of a request's network that are not convolutions.
struct StepTasks {
  std::string problem;  // their key; empty: they are not measured
  std::set<std::string> names;
  // Why they are not measured; empty where the network's file does not tell
  // them.
  std::string unknown;
  // Several ranks take the statistics of normalisations over all their images.
  bool exchanged = false;

  bool measured() const { return !problem.empty(); }
};

// They are measured of ONNX models that have a training graph, in the layout
// and the precisions that devices train in.
StepTasks StepTasksOf(const NetworkRecord& record, const Network& network,
                      const JobRequest& request);

// Their times on a kind, all together, by batch from 0 to `most`, on the line
// between measured batches. Absent where
// that is not known: at batches that no two measured ones enclose, and between
// batches at which not all tasks were measured. Tasks take no time for no
// images. O(points + most).
std::vector<std::optional<Nanoseconds>> TimesOf(
    const StepTasks& tasks, const std::vector<MeasuredPoint>& points,
    BatchSize most);

// Gives the tasks of a memory plan's graph, which were measured at every batch
// that `request` needs, their times, and adds to `convolutions` what these do
// beside. False, changing nothing, if one was not measured at all these
// batches. Fully connected layers keep what the device model estimates: which
// algorithms plans choose from is not measured.
bool SetTimes(const StepTasks& tasks, const std::vector<MeasuredPoint>& points,
              std::span<const BatchSize> needed, TrainingGraph* graph,
              Profile* convolutions);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANNING_WHOLE_STEPS_H_
