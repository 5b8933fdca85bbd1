#ifndef UCUDNN_SOLVER_MEMORY_SPLIT_LEAST_SPLIT_H_
#define UCUDNN_SOLVER_MEMORY_SPLIT_LEAST_SPLIT_H_

// The least split of a network with which a policy has a memory plan within a
// budget. Splits are compared by
//
//   1. their depth, since accuracy falls the more the deeper they are,
//   2. the number of their parts, height times width,
//   3. the time of their plans, and 4. the parts of the height:
//
//   depth 1 of 5    2,1  1,2  3,1  1,3  4,1  2,2  1,4  ...
//   depth 2 of 5    2,1  1,2  3,1    <- the first that has a plan; of 1,3,
//                                       which has as many parts, the plan is
//                                       made too, and the faster one counts
//
// Every split is looked at in this order: neither more parts nor a greater
// depth need less memory for sure (padded copies, parts of other sizes). One
// is passed over without a plan only if one of its tasks alone is larger than
// the budget (LowerBoundBytes), so the answer is the one of a search that plans
// every split.
//
// Where none has a plan, the least budget under which one has is searched among
// all of them, to within 0.1 % or 1 MiB, as far as more budget is never worse
// for the policy (SmallestBudget). One that needs within that of the least may
// be another one than the least in the order above.
//
// Source: Split-CNN (Jin and Hong, ASPLOS 2019) 4.1, whose authors choose depth
// and parts by hand. Deterministic unless it is stopped.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/graph.h"
#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "base/units.h"
#include "solver/memory/policies.h"
#include "solver/memory/request.h"
#include "solver/memory/split/split.h"

namespace ucudnn {

// How far a search is.
struct SplitSearch {
  std::int64_t splits = 0;  // that there are, with the whole network
  std::int64_t done = 0;    // of these; the sum of the following
  std::int64_t planned = 0;
  std::int64_t beyond = 0;      // a task alone is larger than the budget
  std::int64_t impossible = 0;  // cannot be cut so
  std::int64_t unmeasured = 0;
  std::string first_impossible;  // why; empty if there is none
  std::string first_unmeasured;
};

struct LeastSplitProblem {
  const Graph* network = nullptr;
  // The network's training graph with its costs. An error of kNotFound means
  // that they are not measured; others end the search.
  std::function<Result<TrainingGraph>(const Graph& network)> train;
  const MemoryPolicy* policy = nullptr;
  // Its `stop` ends the search.
  MemoryRequest request;
  int max_parts = 16;  // 2 to kMaxSplitParts
  bool stochastic = false;
  // Called before every split, and for what else takes long, named by `what`.
  std::function<void(const SplitSearch& search, const std::string& what)>
      progress = [](const SplitSearch&, const std::string&) {};
};

struct LeastSplit {
  struct Split {
    SplitOptions options;
    SplitDepth depth;
  };
  struct Planned {
    TrainingGraph graph;
    MemoryPlan plan;
  };

  SplitSearch search;
  // The network as it is: within the budget, else within the least budget under
  // which it has a plan. Absent if there is none, or a stop came before it.
  bool whole_fits = false;
  std::optional<Planned> whole;
  // Unless the whole network has a plan. `split` has a plan, or, if `planned`
  // is absent, has one under `least_budget`; absent if none was found.
  std::optional<Split> split;
  std::optional<Planned> planned;
  Bytes least_budget;
  // A stop ended the search: others than the splits that are done may have a
  // plan, or a faster one, or one under less budget.
  bool cut_off = false;
  bool least_budget_cut_off = false;
};

// kInvalidArgument if the network has no depth at which it can be split, and
// errors of `train` and of the policy.
Result<LeastSplit> FindLeastSplit(const LeastSplitProblem& problem);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_SPLIT_LEAST_SPLIT_H_
