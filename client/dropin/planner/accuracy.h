#ifndef UCUDNN_CLIENT_DROPIN_PLANNER_ACCURACY_H_
#define UCUDNN_CLIENT_DROPIN_PLANNER_ACCURACY_H_

// Decides whether an algorithm is accurate enough to replace another.
//
// A library's algorithms for one precision can differ widely in accuracy: in
// FP32, cuDNN's Winograd on 5x5 filters has an error of 1.2e-2 of the largest
// element, its direct algorithms 1e-6. A program that did not ask for the
// former must not get it. So each algorithm runs once on random data, and a
// sample of its result is compared with sums in double precision.

#include <span>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

// For each algorithm, the largest difference between sampled elements of its
// result and the exact values, relative to the largest exact value; infinity if
// it cannot run. The device's error if it is out of memory or broken. Cost: one
// run of `batch` images for each algorithm, and a few hundred inner products on
// the host.
Result<std::vector<double>> MeasureErrors(
    Device& device, const ConvProblem& problem, BatchSize batch,
    std::span<const Algorithm> algorithms);

// The error that rounding explains for every algorithm of the precision,
// relative to the largest element (device/rounding.h is relative to the sums of
// products):
//   FP32 1e-5, TF32 2e-3, PSEUDO_HALF 2e-3, TRUE_HALF 2e-2, BF16 2e-2.
double AdmittedError(Precision precision);

// Whether an algorithm with `error` may replace others, the most accurate of
// which has error `best`: if it is within AdmittedError, or within four times
// `best`.
bool IsAccurate(Precision precision, double error, double best);

// Whether the algorithm returns the same bits for the same input every time,
// according to its library's documentation.
bool IsDeterministic(ConvOp op, const Algorithm& algorithm);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_PLANNER_ACCURACY_H_
