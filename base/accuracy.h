#ifndef UCUDNN_BASE_ACCURACY_H_
#define UCUDNN_BASE_ACCURACY_H_

// Which algorithms are accurate enough for plans (docs/adr/0009, 0063). An
// algorithm's error is the largest difference of its result from double
// precision, relative to the largest element of the result; measurements have
// it in units of 1e-12.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/conv_problem.h"
#include "base/result.h"

namespace ucudnn {

struct MeasuredPoint;

// Of results that are not numbers, or a thousand times the largest element off.
inline constexpr std::int64_t kUselessPpt = 1'000'000'000'000'000;
// Rounded, from 1 (errors of 0 included) to kUselessPpt (also for NaN).
std::int64_t PartsPerTrillion(double error);
double FromPpt(std::int64_t ppt);

// The error that rounding explains for every algorithm of the precision:
//   FP32 1e-5, TF32 2e-3, PSEUDO_HALF 2e-3, TRUE_HALF 2e-2, BF16 2e-2.
double AdmittedError(Precision precision);

// The bound of a request that names none: AdmittedError or, if that is more,
// four times the error of the most accurate algorithm.
inline constexpr double kDefaultMaxError = 0;
// A bound that people give. kInvalidArgument unless it is in (0, 1).
Result<double> ParseMaxError(std::string_view text);
// An error in files: from 0 on.
Result<double> ParseError(std::string_view text);

// Whether plans in `precision` may use an algorithm with this error, where the
// most accurate one has `best`. An error of 0 is not known, and admitted.
bool IsAccurate(Precision precision, double max_error, std::int64_t ppt,
                std::int64_t best);

// Where points become a solver's input: returns the points of one problem whose
// algorithms are too inexact, and leaves the others in `points`. An algorithm
// has the largest error of its points. O(points log points).
std::vector<MeasuredPoint> LeaveOutInexact(Precision precision,
                                           double max_error,
                                           std::vector<MeasuredPoint>* points);

// Gives each point the largest error of its algorithm, so that it is known from
// any part of the points.
void SpreadErrors(std::vector<MeasuredPoint>* points);

// LeaveOutInexact; kFailedPrecondition, naming a bound that would do, if no
// point remains. `kernel` is what errors call the problem.
Status KeepAccurate(Precision precision, double max_error,
                    std::vector<MeasuredPoint>* points,
                    std::string_view kernel);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_ACCURACY_H_
