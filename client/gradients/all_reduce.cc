#include "client/gradients/all_reduce.h"

#include <utility>

#include "client/gradients/gpu_gradients.h"
#include "client/gradients/gradient_sum.h"

namespace ucudnn {

AllReducer::AllReducer(Ranks& ranks) : ranks_(ranks) {}
AllReducer::~AllReducer() = default;

void AllReducer::Free() { gpu_.reset(); }

template <class T>
Status AllReducer::Sum(std::span<T> gradients, double weight, void* stream,
                       Ranks::Deadline deadline) {
  if (gpu_ == nullptr) {
    if (auto gpu = GpuGradients::Create()) gpu_ = *std::move(gpu);
  }
  const bool on_gpu = gpu_ != nullptr && gpu_->IsGpuMemory(gradients.data());
  // A stream may produce gradients in host memory too.
  Status ready;
  if (!on_gpu && gpu_ != nullptr && stream != nullptr) {
    ready = gpu_->Wait(stream, deadline);
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const SumMethod method,
      on_gpu
          ? gpu_->ScaleAndSum(ranks_, gradients.data(), gradients.size(),
                              weight, stream, deadline)
          : ScaleAndSum(ranks_, gradients, weight, deadline, std::move(ready)));
  method_ = Describe(method, on_gpu);
  return {};
}

std::string AllReducer::Describe(SumMethod method, bool on_gpu) const {
  if (method == SumMethod::kNccl) {
    return fmt::format("NCCL {}", gpu_->nccl_version());
  }
  const std::string_view how = method == SumMethod::kSharedMemory
                                   ? "memory that the ranks share"
                                   : "MPI";
  if (!on_gpu) {
    return fmt::format("{}; the gradients are in host memory", how);
  }
  const std::string& why = gpu_->why_not_nccl();
  return fmt::format("{}; NCCL is not used: {}", how,
                     why.empty() ? "another rank's gradients are in host "
                                   "memory, or it has no NCCL"
                                 : why);
}

template Status AllReducer::Sum(std::span<float>, double, void*,
                                Ranks::Deadline);
template Status AllReducer::Sum(std::span<double>, double, void*,
                                Ranks::Deadline);

}  // namespace ucudnn
