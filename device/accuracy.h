#ifndef UCUDNN_DEVICE_ACCURACY_H_
#define UCUDNN_DEVICE_ACCURACY_H_

// Measures how accurate algorithms are (base/accuracy.h says what plans do with
// it).
//
// A library's algorithms for one precision can differ widely in accuracy: in
// FP32, cuDNN's Winograd on 5x5 filters has an error of 1.2e-2 of the largest
// element, its direct algorithms 1e-6. So each algorithm runs once on random
// data, and a sample of its result is compared with sums in double precision.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/accuracy.h"
#include "base/conv_problem.h"
#include "base/measured_point.h"
#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

// The errors of algorithms on devices of one kind, each measured once.
class AlgorithmErrors {
 public:
  // Sets the errors of points of one problem that lack them: the largest
  // difference between sampled elements of the result and the exact values, in
  // units of 1e-12 of the largest exact value; kUselessPpt if the algorithm
  // cannot run, 0 if memory is short. Runs two images, or the point's batch
  // where an algorithm does not take so few. The device's error if it is
  // broken. Cost: a run for each algorithm, random operands and a few hundred
  // inner products on the host, and a copy of each result to the host.
  Status AddTo(Device& device, const ConvProblem& problem,
               std::span<MeasuredPoint> points);
  // The same of algorithms at a batch.
  Result<std::vector<std::int64_t>> Of(Device& device,
                                       const ConvProblem& problem,
                                       BatchSize batch,
                                       std::span<const Algorithm> algorithms);

  // Whether plans may use the algorithm at `batch`, compared with the others
  // that the device lists where that is needed.
  Result<bool> Admit(Device& device, const ConvProblem& problem,
                     BatchSize batch, double max_error,
                     const Algorithm& algorithm);

 private:
  // Measures on exactly so many images.
  Status Learn(Device& device, const ConvProblem& problem, BatchSize batch,
               const std::vector<Algorithm>& algorithms);

  static constexpr std::size_t kMostProblems = 10'000;

  std::map<ConvProblem, std::map<Algorithm, std::int64_t>> known_;
};

// What the device would choose for `problem` on `batch` images, undivided and
// without measured times, with at most `limit` of workspace: the first of
// SuggestAlgorithms that fits and is accurate enough; `errors` remembers what
// was measured for that. kFailedPrecondition, naming the smallest sufficient
// limit, if none fits; kUnimplemented if the device has none; otherwise the
// errors of SuggestAlgorithms and AlgorithmErrors::Admit.
Result<Candidate> SuggestWithin(Device& device, const ConvProblem& problem,
                                BatchSize batch, Bytes limit, double max_error,
                                AlgorithmErrors* errors);

// Whether the algorithm returns the same bits for the same input every time,
// according to its library's documentation.
bool IsDeterministic(ConvOp op, const Algorithm& algorithm);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_ACCURACY_H_
