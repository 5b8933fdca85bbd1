#ifndef UCUDNN_SOLVER_CHECK_VALIDATE_ALLOTMENT_H_
#define UCUDNN_SOLVER_CHECK_VALIDATE_ALLOTMENT_H_

// Checks an allotment of devices to jobs against its problem, in the slow
// obvious way and without any code of the search. As in
// solver/check/validate.h, kInternal names the job and the first rule that is
// broken. Pure.

#include "base/result.h"
#include "solver/allot/allot.h"

namespace ucudnn {

// Ok if `allotment` solves `problem` and its figures add up:
//   - every job has from its least to its most devices, and all jobs together
//     no more of any kind than are free;
//   - each device of a job has a share, of at least one image, that is a row of
//     the job's table with exactly this time; the shares sum to the mini-batch;
//   - the step is the slowest share's time plus the communication of that many
//     devices, and no assignment (solver/assign) on the same devices is faster;
//   - the step is no less than `alone`, which is what an assignment on all free
//     devices takes where the job may have them all;
//   - share and objective follow from the steps, within one part of
//     kWholeShare; the bound is no less, and `optimal` says whether they are
//     equal.
// It does not check that no allotment is better.
Status ValidateAllotment(const Allotment& allotment,
                         const AllotProblem& problem);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_CHECK_VALIDATE_ALLOTMENT_H_
