#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_LAYERS_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_LAYERS_H_

// The layers other than convolutions, computed by the device's own library in
// order with its convolutions: oneDNN primitives, or cuDNN functions on the
// device's stream.
//
// Tensors are FP32, packed NCHW, in device memory. Calls enqueue work. Used by
// the device's thread; the device must outlive the layers. Repeated calls with
// equal shapes and factors reuse prepared primitives.

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/units.h"
#include "client/examples/train/net.h"
#include "device/device.h"

namespace ucudnn::train {

// A maximum or average pool of one layer, for one batch size. Averages count
// padding as zeros. Of equal maxima, one receives the gradient, always the
// same.
class Pool {
 public:
  virtual ~Pool() = default;
  virtual Status Forward(const float* x, float* y) = 0;
  // For the tensors of the last Forward and the gradient dy of y. Overwrites
  // dx.
  virtual Status Backward(const float* x, const float* y, const float* dy,
                          float* dx) = 0;
};

class Layers {
 public:
  virtual ~Layers() = default;

  // `layer` is a pool from `in` to `out`.
  virtual Result<std::unique_ptr<Pool>> MakePool(const Layer& layer,
                                                 const Extent& in,
                                                 const Extent& out,
                                                 BatchSize batch) = 0;
  // x = max(x, 0).
  virtual Status Relu(BatchSize batch, const Extent& extent, float* x) = 0;
  // Sets dy to 0 where y, a result of Relu, is 0.
  virtual Status ReluBackward(BatchSize batch, const Extent& extent,
                              const float* y, float* dy) = 0;
  // Softmax over the channels of each image; the extent must be 1x1.
  virtual Status Softmax(BatchSize batch, const Extent& extent, const float* x,
                         float* y) = 0;
  // out = alpha a + beta out; with beta == 0, out is not read.
  virtual Status Blend(BatchSize batch, const Extent& extent, float alpha,
                       const float* a, float beta, float* out) = 0;
};

// The layers for `device`. kUnimplemented if its library has only convolutions;
// errors of loading a library.
Result<std::unique_ptr<Layers>> MakeLayers(Device& device);

// One for each backend; null if `device` belongs to another.
Result<std::unique_ptr<Layers>> MakeOneDnnLayers(Device& device);
Result<std::unique_ptr<Layers>> MakeCudnnLayers(Device& device);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_LAYERS_H_
