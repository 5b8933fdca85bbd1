#include "client/gradients/all_reduce.h"

#include <utility>

#include "client/gradients/gpu_gradients.h"
#include "client/gradients/gradient_sum.h"

namespace ucudnn {

AllReducer::AllReducer(Ranks& ranks) : ranks_(ranks) {}
AllReducer::~AllReducer() = default;

void AllReducer::Free() { gpu_.reset(); }

GpuGradients* AllReducer::Gpu() {
  if (gpu_ == nullptr) {
    if (auto gpu = GpuGradients::Create()) gpu_ = *std::move(gpu);
  }
  return gpu_.get();
}

bool AllReducer::IsGpuMemory(const void* pointer) {
  return Gpu() != nullptr && gpu_->IsGpuMemory(pointer);
}

Result<bool> AllReducer::PrepareToEnqueue(const void* memory,
                                          Ranks::Deadline deadline) {
  if (!IsGpuMemory(memory)) {
    // Tells the others.
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t unable, ranks_.Max(1, deadline));
    return unable == 0;
  }
  UCUDNN_ASSIGN_OR_RETURN(const bool enqueues,
                          gpu_->PrepareToEnqueue(ranks_, memory, deadline));
  if (enqueues) method_ = Describe(SumMethod::kNccl, true);
  return enqueues;
}

template <class T>
Status AllReducer::Enqueue(std::span<const std::span<T>> values, void* stream,
                           Ranks::Deadline deadline) {
  return gpu_->Enqueue(values, stream, deadline);
}

Status AllReducer::Check() { return gpu_->Check(); }

void AllReducer::Abort() { gpu_->Abort(); }

template <class T>
Status AllReducer::Sum(std::span<T> gradients, double weight, void* stream,
                       Ranks::Deadline deadline) {
  const bool on_gpu = IsGpuMemory(gradients.data());
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

template Status AllReducer::Enqueue(std::span<const std::span<float>>, void*,
                                    Ranks::Deadline);
template Status AllReducer::Enqueue(std::span<const std::span<double>>, void*,
                                    Ranks::Deadline);
template Status AllReducer::Sum(std::span<float>, double, void*,
                                Ranks::Deadline);
template Status AllReducer::Sum(std::span<double>, double, void*,
                                Ranks::Deadline);

}  // namespace ucudnn
