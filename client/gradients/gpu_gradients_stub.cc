// A build without cuDNN, which cannot recognise GPU memory.

#include "client/gradients/gpu_gradients.h"

namespace ucudnn {

struct GpuGradients::State {};

GpuGradients::GpuGradients(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
GpuGradients::~GpuGradients() = default;

Result<std::unique_ptr<GpuGradients>> GpuGradients::Create() {
  return Fail(Code::kUnimplemented, "this build has no cuDNN backend");
}

std::string GpuGradients::nccl_version() const { return ""; }
const std::string& GpuGradients::why_not_nccl() const {
  static const std::string kWhy = "this build has no cuDNN backend";
  return kWhy;
}
bool GpuGradients::IsGpuMemory(const void*) const { return false; }
Status GpuGradients::Wait(void*, Ranks::Deadline) { return {}; }

template <class T>
Result<SumMethod> GpuGradients::ScaleAndSum(Ranks&, T*, std::size_t, double,
                                            void*, Ranks::Deadline) {
  return Fail(Code::kUnimplemented, "this build has no cuDNN backend");
}

Result<bool> GpuGradients::PrepareToEnqueue(Ranks& ranks, const void*,
                                            Ranks::Deadline deadline) {
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t unable, ranks.Max(1, deadline));
  return unable == 0;
}
template <class T>
Status GpuGradients::Enqueue(std::span<const std::span<T>>, void*,
                             Ranks::Deadline) {
  return Fail(Code::kUnimplemented, "this build has no cuDNN backend");
}
Status GpuGradients::Check() const {
  return Fail(Code::kUnimplemented, "this build has no cuDNN backend");
}
void GpuGradients::Abort() {}

template Status GpuGradients::Enqueue(std::span<const std::span<float>>, void*,
                                      Ranks::Deadline);
template Status GpuGradients::Enqueue(std::span<const std::span<double>>, void*,
                                      Ranks::Deadline);
template Result<SumMethod> GpuGradients::ScaleAndSum(Ranks&, float*,
                                                     std::size_t, double, void*,
                                                     Ranks::Deadline);
template Result<SumMethod> GpuGradients::ScaleAndSum(Ranks&, double*,
                                                     std::size_t, double, void*,
                                                     Ranks::Deadline);

}  // namespace ucudnn
