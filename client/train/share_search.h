#ifndef UCUDNN_CLIENT_TRAIN_SHARE_SEARCH_H_
#define UCUDNN_CLIENT_TRAIN_SHARE_SEARCH_H_

// Which shares of a mini-batch are worth measuring (client/train/shares.h).

#include <set>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "solver/joint_memory.h"

namespace ucudnn::train {

// The shares that are tried: B/n, 2B/n, ..., B, for the smallest n of at least
// 32 and as many as ranks that divides the mini-batch B. n is B if there is
// none.
BatchSize ShareStep(BatchSize batch, int ranks);
// The step of the finer shares, a fourth of ShareStep or less; 1 if that is
// less than 5.
BatchSize FinerStep(BatchSize step);
// What is measured at first: the step times powers of two, up to an eighth of
// the mini-batch.
std::vector<BatchSize> FirstBatches(BatchSize batch, BatchSize step);
// The share, and the parts that its convolutions may be divided into.
std::vector<BatchSize> WithParts(BatchSize share, BatchSize step);

// Batches of each kind of a problem.
using Wanted = std::vector<std::set<BatchSize>>;

// What is to be measured next: if shares between the measured ones were on the
// line, the best ones that are not measured, with their neighbours. Errors of
// SolveJointMemory.
Result<Wanted> MissingOf(const JointMemoryProblem& measured);

// What is to be measured for finer shares: those that would be the best next to
// the ones of `solved`, if their plans took as much more than their tasks'
// least times as the solution's do. Nothing if that gains less than half a per
// cent.
Wanted FinerOf(const JointMemoryProblem& problem,
               const JointMemoryPlan& solved);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_SHARE_SEARCH_H_
