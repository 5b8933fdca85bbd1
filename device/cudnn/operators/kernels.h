#ifndef UCUDNN_DEVICE_CUDNN_OPERATORS_KERNELS_H_
#define UCUDNN_DEVICE_CUDNN_OPERATORS_KERNELS_H_

// Kernels for what cuDNN does not have: a few lines of PTX each, which the
// driver compiles for its GPU when they are loaded.

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "device/cudnn/handle.h"

namespace ucudnn::cudnn {

class Kernels {
 public:
  // `handle` must outlive the result. kUnimplemented if the driver cannot load
  // or launch kernels; the driver's errors.
  static Result<std::unique_ptr<Kernels>> Load(CudnnHandle& handle);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  // All are enqueued on the handle's stream, inside its context. Counts fit
  // into 31 bits.

  // For label i of pixel i % pixels of image i / pixels, at its element of
  // `gradients`: probabilities[i] = element * inverse; element -= scale.
  Status SubtractLabels(float* gradients, const std::int32_t* labels,
                        float* probabilities, std::int64_t count,
                        std::int64_t pixels, std::int64_t channels, float scale,
                        float inverse);
  // mask = DropoutHash(i, seed) >= threshold; to = mask ? from * factor : 0.
  Status Dropout(const float* from, float* to, std::uint8_t* mask,
                 std::int64_t count, std::uint32_t seed,
                 std::uint32_t threshold, float factor);
  // to = mask ? from * factor : 0.
  Status DropoutBackward(const float* from, float* to, const std::uint8_t* mask,
                         std::int64_t count, float factor);

 private:
  explicit Kernels(CudnnHandle& handle, const DriverApi& driver)
      : handle_(handle), driver_(driver) {}
  Status Launch(CUfunction function, std::int64_t count, void** parameters);

  CudnnHandle& handle_;
  const DriverApi& driver_;
  CUmodule module_ = nullptr;
  CUfunction subtract_labels_ = nullptr;
  CUfunction dropout_ = nullptr;
  CUfunction dropout_backward_ = nullptr;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_OPERATORS_KERNELS_H_
