#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_LAYERS_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_LAYERS_H_

// What training computes besides convolutions, by the same library and in the
// same order of work as the device's convolutions: oneDNN's primitives, or
// cuDNN's functions on the device's own stream.
//
// Tensors are FP32, packed as NCHW, in device memory. Everything is enqueued
// and belongs to the device's thread; the device outlives it. Calls that are
// repeated with equal shapes and factors prepare nothing anew.

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/units.h"
#include "client/examples/train/net.h"
#include "device/device.h"

namespace ucudnn::train {

// A maximum or average pool of one layer, for one batch. An average counts
// what the padding adds as nothing. Of equal maxima one gets the gradient,
// always the same.
class Pool {
 public:
  virtual ~Pool() = default;
  virtual Status Forward(const float* x, float* y) = 0;
  // For the tensors of the last Forward, and the gradient dy of y; overwrites
  // dx.
  virtual Status Backward(const float* x, const float* y, const float* dy,
                          float* dx) = 0;
};

class Layers {
 public:
  virtual ~Layers() = default;

  // `layer` is a pool of `in` into `out`.
  virtual Result<std::unique_ptr<Pool>> MakePool(const Layer& layer,
                                                 const Extent& in,
                                                 const Extent& out,
                                                 BatchSize batch) = 0;
  // x = max(x, 0).
  virtual Status Relu(BatchSize batch, const Extent& extent, float* x) = 0;
  // dy = 0 where y, which Relu made, is 0.
  virtual Status ReluBackward(BatchSize batch, const Extent& extent,
                              const float* y, float* dy) = 0;
  // Over the channels of each image; extents of 1x1.
  virtual Status Softmax(BatchSize batch, const Extent& extent, const float* x,
                         float* y) = 0;
  // out = alpha a + beta out; with beta == 0, out is not read.
  virtual Status Blend(BatchSize batch, const Extent& extent, float alpha,
                       const float* a, float beta, float* out) = 0;
};

// Those of `device`. kUnimplemented if it computes nothing but convolutions;
// what loading a library fails with.
Result<std::unique_ptr<Layers>> MakeLayers(Device& device);

// One for each backend, nothing if `device` is not of it.
Result<std::unique_ptr<Layers>> MakeOneDnnLayers(Device& device);
Result<std::unique_ptr<Layers>> MakeCudnnLayers(Device& device);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_LAYERS_H_
