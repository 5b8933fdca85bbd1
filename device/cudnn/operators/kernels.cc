#include "device/cudnn/operators/kernels.h"

#include <limits>
#include <string>

namespace ucudnn::cudnn {

Result<std::unique_ptr<Kernels>> Kernels::Load(CudnnHandle& handle) {
  UCUDNN_ASSIGN_OR_RETURN(const DriverApi* driver, handle.driver());
  if (driver->ModuleLoadData == nullptr || driver->ModuleUnload == nullptr ||
      driver->ModuleGetFunction == nullptr || driver->LaunchKernel == nullptr) {
    return Fail(Code::kUnimplemented, "the driver cannot load kernels");
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle.Enter());
  std::unique_ptr<Kernels> kernels(new Kernels(handle, *driver));
  UCUDNN_RETURN_IF_ERROR(handle.Call(driver->ModuleLoadData, &kernels->module_,
                                     KernelText().c_str()));
  for (const std::string_view name : KernelNames()) {
    UCUDNN_RETURN_IF_ERROR(
        handle.Call(driver->ModuleGetFunction, &kernels->functions_[name],
                    kernels->module_, std::string(name).c_str()));
  }
  return kernels;
}

Kernels::~Kernels() {
  if (module_ == nullptr) return;
  const auto scope = handle_.Enter();
  // In a lost context nothing can be unloaded.
  if (scope) (void)driver_.ModuleUnload(module_);
}

Status Kernels::LaunchNamed(std::string_view name, std::int64_t threads,
                            void** parameters) {
  if (threads == 0) return {};
  if (threads > std::numeric_limits<std::int32_t>::max()) {
    return Fail(Code::kUnimplemented,
                "a kernel of {} threads; less than 2^31 are accepted", threads);
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
  UCUDNN_ASSIGN_OR_RETURN(const CUstream stream, handle_.stream());
  const auto blocks =
      static_cast<unsigned int>((threads + kBlockThreads - 1) / kBlockThreads);
  return handle_.Call(driver_.LaunchKernel, functions_.at(name), blocks, 1, 1,
                      kBlockThreads, 1, 1, 0, stream, parameters, nullptr);
}

}  // namespace ucudnn::cudnn
