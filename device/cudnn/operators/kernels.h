#ifndef UCUDNN_DEVICE_CUDNN_OPERATORS_KERNELS_H_
#define UCUDNN_DEVICE_CUDNN_OPERATORS_KERNELS_H_

// Kernels for what cuDNN does not have: a few lines of PTX each
// (kernel_text.h), which the driver compiles for its GPU when they are loaded.
//
//   kernels->Launch(kDropoutBackward, count, dy, dx, mask, count, factor);

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "device/cudnn/handle.h"
#include "device/cudnn/operators/kernel_text.h"

namespace ucudnn::cudnn {

class Kernels {
 public:
  // `handle` must outlive the result. kUnimplemented if the driver cannot load
  // or launch kernels; the driver's errors.
  static Result<std::unique_ptr<Kernels>> Load(CudnnHandle& handle);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  // Enqueues a kernel of `threads` threads on the handle's stream.
  // kUnimplemented from 2^31 threads on.
  template <class... P>
  Status Launch(const Kernel<P...>& kernel, std::int64_t threads,
                std::type_identity_t<P>... parameters) {
    void* pointers[] = {
        const_cast<void*>(static_cast<const void*>(&parameters))...};
    return LaunchNamed(kernel.name, threads, pointers);
  }

 private:
  explicit Kernels(CudnnHandle& handle, const DriverApi& driver)
      : handle_(handle), driver_(driver) {}
  Status LaunchNamed(std::string_view name, std::int64_t threads,
                     void** parameters);

  CudnnHandle& handle_;
  const DriverApi& driver_;
  CUmodule module_ = nullptr;
  std::map<std::string_view, CUfunction> functions_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_OPERATORS_KERNELS_H_
