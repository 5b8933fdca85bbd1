#include "client/gradients/all_reduce.h"

#include <utility>

#include "client/gradients/gpu_gradients.h"
#include "client/gradients/gradient_sum.h"

namespace ucudnn {

AllReducer::AllReducer(Ranks& ranks) : ranks_(ranks) {}
AllReducer::~AllReducer() = default;

template <class T>
Status AllReducer::Sum(std::span<T> gradients, double weight, void* stream,
                       Ranks::Deadline deadline) {
  if (gpu_ == nullptr) {
    if (auto gpu = GpuGradients::Create()) gpu_ = *std::move(gpu);
  }
  if (gpu_ != nullptr && gpu_->IsGpuMemory(gradients.data())) {
    return gpu_->ScaleAndSum(ranks_, gradients.data(), gradients.size(), weight,
                             stream, deadline);
  }
  // A stream may produce gradients in host memory too.
  Status ready;
  if (gpu_ != nullptr && stream != nullptr) {
    ready = gpu_->Wait(stream, deadline);
  }
  return ScaleAndSum(ranks_, gradients, weight, deadline, std::move(ready));
}

template Status AllReducer::Sum(std::span<float>, double, void*,
                                Ranks::Deadline);
template Status AllReducer::Sum(std::span<double>, double, void*,
                                Ranks::Deadline);

}  // namespace ucudnn
