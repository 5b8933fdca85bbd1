#ifndef UCUDNN_SOLVER_ASSIGN_EXPLAIN_H_
#define UCUDNN_SOLVER_ASSIGN_EXPLAIN_H_

// Why an assignment is as it is: what holds each GPU's batch where it is, and
// what one more GPU would bring.

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

// "slowest", "next_too_slow", ...: the spelling of JSON.
std::string_view Name(Binding binding);

struct ShareExplanation {
  Binding binding = Binding::kSlowest;
  // What kNextTooSlow and kLeftTooSlow refer to: the next larger batch (or
  // the fastest one) and its time.
  BatchCost other;
  std::string text;  // for people
};

// One for each GPU. `assignment` must be an answer for `problem`.
std::vector<ShareExplanation> ExplainShares(const AssignProblem& problem,
                                            const Assignment& assignment);

// What one more GPU like `gpu` would bring.
struct MarginalGain {
  std::size_t gpu = 0;  // the first of its kind
  Nanoseconds makespan{0};
  Nanoseconds gain{0};  // against the assignment's makespan
};

// One for each kind of GPU, that is for each set of GPUs with the same table
// and limits, in the order of their first GPUs. With communication times those
// kinds are answered only if there is one for one GPU more than there are.
// Errors of SolveAssignment. Costs about one SolveAssignment for each kind.
Result<std::vector<MarginalGain>> MarginalGains(const AssignProblem& problem,
                                                const Assignment& assignment,
                                                const Limits& limits = {});

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ASSIGN_EXPLAIN_H_
