#ifndef UCUDNN_SOLVER_STEP_SHARES_H_
#define UCUDNN_SOLVER_STEP_SHARES_H_

// Shares a mini-batch among unlike GPUs by the times of whole training steps,
// which a framework measured or recorded at some batches:
//
//   min max_g t_g(b_g),   sum_g b_g = B,   peak_g(b_g) <= memory of GPU g
//
// Between two batches, times and sizes are on the line through theirs. Below
// the first batch, down to `least`, a step takes as long as at the first.
// Beyond the last there is none. A recorded step
// (solver/memory/recorded_step.h) between two others has segments and tensors
// between theirs, and where memory does not hold all of it takes what its plan
// does. Beyond what memory holds, a share may be several equal passes.
//
// Method: exact, with few plans. Recorded steps begin with the sum of their
// segments, which no plan beats. The best assignment (solver/assign/assign.h)
// is found and the batches that it uses are planned, until it uses planned ones
// only. A batch that no plan fits bounds all larger ones of its kind, and the
// largest that fits is found by bisection.

#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "solver/memory/recorded_step.h"

namespace ucudnn {

struct MeasuredStep {
  BatchSize batch;
  Nanoseconds time{0};
  Bytes peak = {};  // 0: unknown, so any memory holds it
  // Instead of time and peak.
  std::optional<RecordedStep> recorded = {};
};

// What was measured on one kind of device, where it has as much memory.
struct StepKind {
  std::string name;  // for errors
  Bytes memory = Bytes::Max();
  // By rising batch, each once, one at least; either none is recorded or all
  // are, with the same hooks, tensors and uses.
  std::vector<MeasuredStep> steps;
  // The smallest batch that can be computed; 0: the first of `steps`.
  BatchSize least{0};
  // Not 0: memory ends at the last of `steps`, and a larger share takes up to
  // so many equal passes, each of at most what memory holds. Recorded steps are
  // one pass.
  std::int64_t passes = 0;
  std::string fingerprint = {};  // of what was measured, for who puts it
};

struct StepProblem {
  BatchSize batch;
  std::vector<StepKind> kinds;
  std::vector<std::size_t> gpus;  // the kind of each
  // Every GPU gets images: the framework cannot leave one out. Then even shares
  // are taken if they are at most 1 % slower, which is less than noise.
  bool all_gpus = false;
  bool recompute = true;  // plans may compute tensors again
  // Of each GPU, if they are known: only what they take is asked.
  std::vector<BatchSize> shares = {};
  // Ends the search with the best shares so far.
  std::stop_token stop = {};
};

struct GpuStep {
  BatchSize batch;  // 0: left out
  Nanoseconds time{0};
  Nanoseconds lower_bound{0};  // no plan of the batch takes less
  Bytes peak = {};             // 0: unknown
  std::int64_t passes = 1;

  friend bool operator==(const GpuStep&, const GpuStep&) = default;
};

struct StepShares {
  std::vector<GpuStep> gpus;
  Nanoseconds makespan{0};
  Nanoseconds lower_bound{0};  // no shares are faster
  // With even shares; absent where a GPU cannot have one.
  std::optional<Nanoseconds> even;
  bool cut_off =
      false;  // `stop` ended a search: another may find faster shares
  std::vector<BatchSize> most;  // of each kind, as far as is known
};

// The smallest batch that can be computed, and the largest share, if memory
// holds it.
BatchSize LeastBatch(const StepKind& kind);
BatchSize LargestBatch(const StepKind& kind);

// kInvalidArgument, naming the kind, the value and what is accepted, if a kind
// contradicts itself.
Status CheckStepKind(const StepKind& kind);

// The step of `part` (0 to 1) of the way from one to another with the same
// hooks, tensors and uses.
RecordedStep Between(const RecordedStep& from, const RecordedStep& to,
                     double part);

// Adds a GPU of a kind that has so much memory.
void AddGpu(const StepKind& kind, Bytes memory, StepProblem* problem);

// The best shares. `kinds` pass CheckStepKind. Errors: kInvalidArgument if the
// batch is not positive, there is no GPU, or given shares are not those of all
// GPUs and the batch; kFailedPrecondition, naming the kind and what would do,
// if a GPU that must have images can have none, no shares add up to the batch,
// or a GPU has no step of a given share. Pure and thread-safe.
Result<StepShares> ShareSteps(const StepProblem& problem);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_STEP_SHARES_H_
