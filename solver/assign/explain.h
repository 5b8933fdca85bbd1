#ifndef UCUDNN_SOLVER_ASSIGN_EXPLAIN_H_
#define UCUDNN_SOLVER_ASSIGN_EXPLAIN_H_

// Explains an assignment: what limits each GPU's batch, and what one more GPU
// would gain.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "solver/assign/assign.h"

namespace ucudnn {

enum class Binding {
  kSlowest,        // its time is the makespan
  kNextTooSlow,    // its next larger batch would take longer than the makespan
  kNothingLarger,  // no larger batch was measured
  kLimits,         // larger batches exceed its memory or are not allowed
  kSumReached,     // a larger batch would do; the batches sum to B already
  kLeftTooSlow,    // left out: every batch takes longer than the makespan
  kLeftNoBatch,    // left out: no batch up to B was measured
  kLeftLimits,     // left out: no batch is within its limits
  kLeftNotNeeded,  // left out: the makespan is reached without it
};

// "slowest", "next_too_slow", ...: as JSON spells them.
std::string_view Name(Binding binding);

struct ShareExplanation {
  Binding binding = Binding::kSlowest;
  // For kNextTooSlow the next larger batch and its time, for kLeftTooSlow the
  // fastest batch and its time.
  BatchCost other;
  std::string text;  // for people
};

// One for each GPU. `assignment` must solve `problem`.
std::vector<ShareExplanation> ExplainShares(const AssignProblem& problem,
                                            const Assignment& assignment);

// What one more GPU like `gpu` would gain.
struct MarginalGain {
  std::size_t gpu = 0;  // the first of its kind
  Nanoseconds makespan{0};
  Nanoseconds gain{0};  // against the assignment's makespan
};

// One for each kind of GPU (GPUs with the same table and limits), in the order
// of their first GPUs. If there are communication times, but none for one GPU
// more, the result is empty. Errors of SolveAssignment. Costs about one
// SolveAssignment for each kind.
Result<std::vector<MarginalGain>> MarginalGains(const AssignProblem& problem,
                                                const Assignment& assignment,
                                                const Limits& limits = {});

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ASSIGN_EXPLAIN_H_
