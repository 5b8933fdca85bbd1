#ifndef UCUDNN_SOLVER_CHECK_VALIDATE_ASSIGNMENT_H_
#define UCUDNN_SOLVER_CHECK_VALIDATE_ASSIGNMENT_H_

// Checks an assignment, what explains it, and a joint plan against the tables
// they were made from, the slow obvious way and without any code of the
// solvers. Tests use it on every answer, and debug builds on every answer that
// a solver returns. As in solver/check/validate.h: kInternal names the GPU and
// the first rule that is broken. All are pure.

#include <optional>
#include <span>

#include "base/result.h"
#include "base/units.h"
#include "solver/assign/assign.h"
#include "solver/assign/explain.h"
#include "solver/joint.h"

namespace ucudnn {

// Ok if `assignment` is one for `problem` and adds up:
//   - each GPU has a share; batches sum to the mini-batch exactly;
//   - each share is a batch of the GPU's table with just this time, within its
//     memory, its largest batch and those it is allowed; what is left out
//     takes no time;
//   - gpus_used, total_time and communication are what the shares make them;
//     the makespan is the slowest share's time and the communication, and is
//     its own bound;
//   - the even split, where there is one, is no faster.
// O(table) for each GPU.
Status ValidateAssignment(const Assignment& assignment,
                          const AssignProblem& problem);

// Ok if `even` is what the even split takes: B / |G| on every GPU; absent
// where it is not whole or some GPU may not take it.
Status ValidateEvenSplit(const std::optional<Nanoseconds>& even,
                         const AssignProblem& problem);

// Ok if each GPU's binding constraint, and the batch that it names, is what
// the tables say, and every explanation has a text.
Status ValidateExplanations(std::span<const ShareExplanation> explanations,
                            const Assignment& assignment,
                            const AssignProblem& problem);

// Ok if each is of another kind of GPU, by rising first GPU, and gains what
// the makespans differ by, which is never a loss.
Status ValidateGains(std::span<const MarginalGain> gains,
                     const Assignment& assignment,
                     const AssignProblem& problem);

// Ok if the shares are what the GPUs' own plans and the rest take, the plans
// pass ValidatePlan for their kinds' measurements and limits, and batches,
// makespan, GPUs and total add up as in ValidateAssignment.
Status ValidateJoint(const JointPlan& joint, const JointProblem& problem);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_CHECK_VALIDATE_ASSIGNMENT_H_
