#ifndef UCUDNN_CLIENT_DROPIN_PLANNER_ACCURACY_H_
#define UCUDNN_CLIENT_DROPIN_PLANNER_ACCURACY_H_

// Whether an algorithm computes well enough to stand in for another one.
//
// Libraries offer algorithms of very unlike accuracy for one precision:
// cuDNN's Winograd on 5x5 filters errs by 1.2e-2 of the largest element in
// FP32, its direct algorithms by 1e-6. A program that never asked for the
// former must not get it from us. So each algorithm runs once on random data
// and a sample of its result is compared with sums in double precision.

#include <span>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

// For each algorithm the largest difference between sampled elements of its
// result and exact ones, over the largest exact one; infinity if it cannot run.
// What the device reports if it is out of memory or broken. Costs a run of
// `batch` images each, and some hundred inner products on the host.
Result<std::vector<double>> MeasureErrors(
    Device& device, const ConvProblem& problem, BatchSize batch,
    std::span<const Algorithm> algorithms);

// Errors up to this are rounding in the precision, whatever the algorithm, over
// the largest element (device/rounding.h is over the sums of products):
//   FP32 1e-5, TF32 2e-3, PSEUDO_HALF 2e-3, TRUE_HALF 2e-2, BF16 2e-2.
double AdmittedError(Precision precision);

// Whether an algorithm with `error` may stand in for others, the most exact of
// which has `best`: it is within the above, or within four times of `best`.
bool IsAccurate(Precision precision, double error, double best);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_PLANNER_ACCURACY_H_
