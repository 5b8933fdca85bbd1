#ifndef UCUDNN_SOLVER_CHECK_VALIDATE_ASSIGNMENT_H_
#define UCUDNN_SOLVER_CHECK_VALIDATE_ASSIGNMENT_H_

// Checks assignments, their explanations and joint plans against the tables
// they were made from, in the slow obvious way and without any code of the
// solvers. Tests check every answer, and debug builds every answer that a
// solver returns. As in solver/check/validate.h, kInternal names the GPU and
// the first rule that is broken. All functions are pure.

#include <optional>
#include <span>

#include "base/result.h"
#include "base/units.h"
#include "solver/assign/assign.h"
#include "solver/assign/explain.h"
#include "solver/joint.h"

namespace ucudnn {

// Ok if `assignment` solves `problem` and its figures add up:
//   - each GPU has a share; batches sum to the mini-batch exactly;
//   - each share is a batch of the GPU's table with exactly this time, within
//     its memory, its largest batch and its allowed batches; a GPU that is left
//     out takes no time;
//   - gpus_used, total_time and communication follow from the shares; the
//     makespan is the slowest share's time plus the communication, and is its
//     own bound;
//   - the even split, if there is one, is no faster.
// O(table) for each GPU.
Status ValidateAssignment(const Assignment& assignment,
                          const AssignProblem& problem);

// Ok if `even` is the time of the even split, B / |G| on every GPU; absent if
// that is not a whole number or some GPU may not take it.
Status ValidateEvenSplit(const std::optional<Nanoseconds>& even,
                         const AssignProblem& problem);

// Ok if each GPU's binding constraint, and the batch that it names, follow from
// the tables, and every explanation has a text.
Status ValidateExplanations(std::span<const ShareExplanation> explanations,
                            const Assignment& assignment,
                            const AssignProblem& problem);

// Ok if the gains are of different kinds of GPU, by rising first GPU, and each
// is the difference of the makespans and not negative.
Status ValidateGains(std::span<const MarginalGain> gains,
                     const Assignment& assignment,
                     const AssignProblem& problem);

// Ok if each share takes the time of the GPU's own plan and of what is not
// convolution, the plans pass ValidatePlan for their kinds' measurements and
// limits, and batches, makespan, GPUs and total add up as in
// ValidateAssignment.
Status ValidateJoint(const JointPlan& joint, const JointProblem& problem);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_CHECK_VALIDATE_ASSIGNMENT_H_
