#ifndef UCUDNN_SOLVER_JOINT_MEMORY_H_
#define UCUDNN_SOLVER_JOINT_MEMORY_H_

// Shares a mini-batch among unlike GPUs of which each trains its share under a
// memory plan of its own (solver/memory/policies.h):
//
//   min max_g t_g(b_g),   sum_g b_g = B,
//   t_g(b): the time of the policy's plan of b images in the memory of GPU g
//
// So a GPU with little memory gets a batch that it trains by moving activations
// to the host, where that lets the slowest GPU end earlier. t_g need not rise
// with b, and has gaps where there is no plan.
//
// Method: exact, with few plans. Every t_g(b) begins as the sum of its tasks'
// least times. The best assignment for these times (solver/assign/assign.h) is
// found, and the batches that it uses get their lower bounds
// (solver/memory/bounds.h), until it uses such batches only; then their plans'
// times, until it uses planned batches only. All other times are lower bounds,
// so no assignment is faster. It ends, since each repetition bounds or plans
// another batch of a kind.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/profile.h"
#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "base/units.h"
#include "solver/assign/assign.h"
#include "solver/assign/explain.h"
#include "solver/memory/policies.h"
#include "solver/memory/request.h"

namespace ucudnn {

// GPUs of one model with the same memory for an iteration.
struct JointMemoryKind {
  TrainingGraph graph;  // with the model's costs; its batch does not matter
  Bytes budget;
  // The convolutions' measurements, if they are not in the graph, which knows
  // them for one mini-batch only (SetConvolutionCosts).
  Profile convolutions = {};
  // The shares that may be given, rising; empty: all multiples of the problem's
  // step.
  std::vector<BatchSize> shares = {};
};

struct JointMemoryProblem {
  BatchSize batch;
  std::vector<JointMemoryKind> kinds;
  std::vector<std::size_t> gpus;  // the kind of each
  BatchSize step{1};  // shares are multiples of it, if a kind has no list
  const MemoryPolicy* policy = nullptr;
  // Each share is trained at once: policies do not divide it.
  bool undivided = false;
  // Budgets are the kinds'. `stop` ends the search with the best assignment so
  // far; where none is planned yet, with the first that can be.
  MemoryRequest request;
  std::vector<Nanoseconds> communication = {};  // as in AssignProblem
};

struct JointMemoryPlan {
  Assignment assignment;
  // No assignment is faster under plans of the policy: the makespan itself
  // unless `stop` ended the search.
  Nanoseconds lower_bound{0};
  // None is under any plans (solver/memory/bounds.h).
  Nanoseconds least{0};
  // `stop` ended the search, so another one may find a faster assignment, and
  // `whole` and `makespan_whole` are not known.
  bool cut_off = false;
  // Of each GPU, its batch's plan; a kind and a batch in `plans`.
  std::map<std::pair<std::size_t, BatchSize>, MemoryPlan> plans;
  // The largest share of each kind that needs no memory plan, because all of an
  // iteration fits into its memory at once; 0 if there is none or if that is
  // not known.
  std::vector<BatchSize> whole;
  // The best makespan of such shares only; absent if they do not add up to the
  // mini-batch.
  std::optional<Nanoseconds> makespan_whole;
  std::vector<ShareExplanation> shares;  // of each GPU
  std::int64_t planned = 0;              // plans that were made
};

// The kind's graph of `batch` images instead of its own.
TrainingGraph AtBatch(const JointMemoryKind& kind, BatchSize batch);

// The best assignment. Errors: kInvalidArgument if the batch or the step is not
// positive, there is no GPU, a GPU's kind does not exist, or a budget is not
// positive; those of SetConvolutionCosts; those of SolveAssignment, of which
// kFailedPrecondition if no batches that can be planned add up to the
// mini-batch; errors of the policy other than that there is no plan. Pure and
// thread-safe.
Result<JointMemoryPlan> SolveJointMemory(const JointMemoryProblem& problem);

// Why the GPU has its batch, and how it trains it; in a line, for people.
std::string WhyShare(const JointMemoryProblem& problem,
                     const JointMemoryPlan& plan, std::size_t gpu);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_JOINT_MEMORY_H_
