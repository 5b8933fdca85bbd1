#ifndef UCUDNN_TESTS_GPU_FIGURES_SURVEY_H_
#define UCUDNN_TESTS_GPU_FIGURES_SURVEY_H_

// What cuDNN offers for problems, found out on several threads: building and
// checking engines is host time, and was half of a figure's. Nothing is
// measured meanwhile.

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/cudnn_device.h"
#include "device/device.h"

namespace ucudnn::figures {

// An algorithm ready to run.
struct Offer {
  Candidate candidate;
  std::shared_ptr<Convolution> convolution;
};

// What is offered for each batch of a problem, or why nothing is.
using Offers = std::map<BatchSize, Result<std::vector<Offer>>>;

class Surveyors {
 public:
  // `threads` devices on the GPU of `device`, opened with the same `options`
  // (of which the ordinals name one GPU). Work that they prepare goes to
  // `device`'s stream, and so into its order of work. `device` must outlive
  // them, and they what they offer.
  static Result<std::unique_ptr<Surveyors>> Open(Device& device,
                                                 const CudnnOptions& options,
                                                 int threads);

  // `device` itself, on the caller's thread.
  explicit Surveyors(Device& device) : device_(device) {}

  struct Wanted {
    ConvProblem problem;
    std::vector<BatchSize> batches;
  };
  // In the order of `wanted`. What needs more than `max_workspace` is left
  // out. `device` knows afterwards which engines are right.
  std::vector<Offers> Find(const std::vector<Wanted>& wanted,
                           Bytes max_workspace);

 private:
  Device& device_;
  std::vector<std::unique_ptr<Device>> devices_;  // none: device_
};

}  // namespace ucudnn::figures

#endif  // UCUDNN_TESTS_GPU_FIGURES_SURVEY_H_
