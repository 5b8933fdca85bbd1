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

template Result<SumMethod> GpuGradients::ScaleAndSum(Ranks&, float*,
                                                     std::size_t, double, void*,
                                                     Ranks::Deadline);
template Result<SumMethod> GpuGradients::ScaleAndSum(Ranks&, double*,
                                                     std::size_t, double, void*,
                                                     Ranks::Deadline);

}  // namespace ucudnn
