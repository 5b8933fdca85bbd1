#include "coordinator/upkeep/retention.h"

#include <algorithm>

#include "coordinator/limits.h"

namespace ucudnn {

Cutoffs CutoffsAt(const KeepDays& keep, UnixMillis now_ms) {
  constexpr std::int64_t kDayMs = 24 * 3'600'000;
  const auto before = [&](std::int64_t days) {
    return days == 0 ? 0 : std::max<UnixMillis>(now_ms - days * kDayMs, 0);
  };
  return {.tasks_ms = before(keep.tasks),
          .steps_ms = before(keep.steps),
          .plans_ms = before(keep.plans),
          .jobs_ms = before(keep.jobs)};
}

Result<bool> RetentionPass::Step() {
  const auto next = [this](std::int64_t deleted, std::int64_t most,
                           std::int64_t* count, Stage stage) {
    *count += deleted;
    if (deleted < most) stage_ = stage;
  };
  switch (stage_) {
    case Stage::kSteps: {
      // Those of jobs that are deleted next go first: there may be many.
      UCUDNN_ASSIGN_OR_RETURN(
          const std::int64_t deleted,
          store_.PruneSteps(std::max(cutoffs_.steps_ms, cutoffs_.jobs_ms),
                            kPrunedSteps));
      next(deleted, kPrunedSteps, &deleted_.steps, Stage::kJobs);
      return false;
    }
    case Stage::kJobs: {
      UCUDNN_ASSIGN_OR_RETURN(const std::int64_t deleted,
                              store_.PruneJobs(cutoffs_.jobs_ms, kPrunedJobs));
      next(deleted, kPrunedJobs, &deleted_.jobs, Stage::kPlans);
      return false;
    }
    case Stage::kPlans: {
      UCUDNN_ASSIGN_OR_RETURN(
          const std::int64_t deleted,
          store_.PrunePlans(cutoffs_.plans_ms, kPrunedPlans));
      next(deleted, kPrunedPlans, &deleted_.plans, Stage::kTasks);
      return false;
    }
    case Stage::kTasks: {
      if (cutoffs_.tasks_ms == 0) {
        stage_ = Stage::kEnd;
        return true;
      }
      UCUDNN_ASSIGN_OR_RETURN(
          const PrunedTasks pruned,
          store_.PruneTasks(cutoffs_.tasks_ms, last_task_, kPrunedTasks));
      deleted_.tasks += pruned.deleted;
      last_task_ = pruned.last_id;
      if (last_task_ == 0) stage_ = Stage::kEnd;
      return stage_ == Stage::kEnd;
    }
    case Stage::kEnd:
      return true;
  }
  return true;
}

}  // namespace ucudnn
