#ifndef UCUDNN_TESTS_GPU_FIGURES_SURVEY_H_
#define UCUDNN_TESTS_GPU_FIGURES_SURVEY_H_

// Lists cuDNN's algorithms for problems on several threads, because building
// and checking engines on one thread took half of a figure's time. Nothing is
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

// A prepared algorithm.
struct Offer {
  Candidate candidate;
  std::shared_ptr<Convolution> convolution;
};

// The algorithms for each batch of a problem, or the error of listing them.
using Offers = std::map<BatchSize, Result<std::vector<Offer>>>;

class Surveyors {
 public:
  // Opens `threads` devices on the GPU of `device` with the same `options`,
  // whose ordinals name one GPU. The work that they prepare runs on `device`'s
  // stream, in its order. `device` must outlive them, and they what they list.
  static Result<std::unique_ptr<Surveyors>> Open(Device& device,
                                                 const CudnnOptions& options,
                                                 int threads);

  // Uses `device` itself, on the caller's thread.
  explicit Surveyors(Device& device) : device_(device) {}

  struct Wanted {
    ConvProblem problem;
    std::vector<BatchSize> batches;
  };
  // Results in the order of `wanted`, without algorithms that need more than
  // `max_workspace`. Afterwards `device` knows which engines are correct.
  std::vector<Offers> Find(const std::vector<Wanted>& wanted,
                           Bytes max_workspace);

 private:
  Device& device_;
  std::vector<std::unique_ptr<Device>> devices_;  // empty: use device_
};

}  // namespace ucudnn::figures

#endif  // UCUDNN_TESTS_GPU_FIGURES_SURVEY_H_
