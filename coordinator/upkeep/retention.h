#ifndef UCUDNN_COORDINATOR_UPKEEP_RETENTION_H_
#define UCUDNN_COORDINATOR_UPKEEP_RETENTION_H_

// Deletes what ended long ago, piece by piece: each in a transaction of its own
// that keeps other writers waiting for some milliseconds.
//
//   RetentionPass pass(store, CutoffsAt(keep, clock.NowMs()));
//   while (!*pass.Step()) ...

#include <cstdint>

#include "base/result.h"
#include "coordinator/options.h"
#include "coordinator/upkeep/retention_store.h"

namespace ucudnn {

Cutoffs CutoffsAt(const KeepDays& keep, UnixMillis now_ms);

class RetentionPass {
 public:
  RetentionPass(RetentionStore& store, const Cutoffs& cutoffs)
      : store_(store), cutoffs_(cutoffs) {}

  // Deletes a piece; returns whether nothing is left. After an error it may be
  // called again.
  Result<bool> Step();
  // By this pass so far.
  const PruneCounts& deleted() const { return deleted_; }

 private:
  enum class Stage { kSteps, kJobs, kPlans, kTasks, kEnd };

  RetentionStore& store_;
  const Cutoffs cutoffs_;
  Stage stage_ = Stage::kSteps;
  std::int64_t last_task_ = 0;
  PruneCounts deleted_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_UPKEEP_RETENTION_H_
