#ifndef UCUDNN_DEVICE_OPERATORS_OPERATORS_H_
#define UCUDNN_DEVICE_OPERATORS_OPERATORS_H_

// What training needs beside convolutions, computed by the device's own library
// in the device's order of work. A fully connected layer is a convolution whose
// filter is as large as its input, so it is not here.
//
//   UCUDNN_ASSIGN_OR_RETURN(auto operators, OpenOperators(device));
//   operators->Pool(batch, pooling, x, y);
//
// Tensors are floats, packed NCHW or NCDHW, in device memory. Calls enqueue
// work; on GPUs they neither allocate nor wait once their shapes have come
// before. Outputs do not overlap inputs unless a function says that they may be
// equal. A `beta` of 0 means that the old contents of the output are not read
// and may be NaN; with 1, the result is added to them. The same calls give the
// same bits. Used by the device's thread; the device must outlive them.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/graph.h"
#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

// The part of a tensor that belongs to one image, or to one volume, whose
// pixels have a third axis: slices of rows.
struct ImageExtent {
  std::int64_t channels = 1;
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t depth = 1;

  std::int64_t pixels() const { return depth * height * width; }
  std::array<std::int64_t, 3> axes() const { return {depth, height, width}; }
  std::int64_t elements() const { return channels * pixels(); }
  friend bool operator==(const ImageExtent&, const ImageExtent&) = default;
};

struct Pooling {
  enum class Kind {
    kMax,
    kAverage,        // padding counts as zeros
    kAverageInside,  // of the elements that are in the input
  };
  Kind kind = Kind::kMax;
  ImageExtent input;
  ImageExtent output;
  std::array<Window, 3> windows;  // of depth, height and width

  // Whether depth counts. Libraries have pools of two dimensions and of three.
  bool of_volumes() const {
    return input.depth > 1 || output.depth > 1 || windows[0] != Window();
  }
  friend bool operator==(const Pooling&, const Pooling&) = default;
};

// Of single elements; PyTorch's operators of these names.
struct Activation {
  enum class Kind {
    kSigmoid,
    kHardSigmoid,  // alpha * x + beta, clamped to [0, 1]
    kSwish,        // x * sigmoid(x)
    kHardSwish,    // x * (x / 6 + 1 / 2, clamped to [0, 1])
  };
  Kind kind = Kind::kSigmoid;
  float alpha = 0.2F;
  float beta = 0.5F;

  // Whether the backward pass reads y, not x.
  bool saves_output() const {
    return kind == Kind::kSigmoid || kind == Kind::kHardSigmoid;
  }
  friend bool operator==(const Activation&, const Activation&) = default;
};

// y = x / (bias + alpha / size * sum of squares)^beta, where the sum is over
// `size` channels around that of x, or one more after it than before it.
struct LocalResponse {
  ImageExtent extent;
  std::int64_t size = 1;
  double alpha = 1e-4;
  double beta = 0.75;
  double bias = 1;

  friend bool operator==(const LocalResponse&, const LocalResponse&) = default;
};

// Which pixels of the input make a pixel of the output; ONNX's attributes.
struct Resizing {
  enum class Mode { kNearest, kLinear };
  // Where output pixel o of `out` lies among `in` of the input.
  enum class Place {
    kHalfPixel,     // (o + 1 / 2) * in / out - 1 / 2
    kAsymmetric,    // o * in / out
    kAlignCorners,  // o * (in - 1) / (out - 1)
  };
  // Of the nearest: `rounds` to the nearer, else down; of two, the lower.
  Mode mode = Mode::kNearest;
  Place place = Place::kHalfPixel;
  bool rounds = true;
  ImageExtent input;
  ImageExtent output;  // of as many channels

  friend bool operator==(const Resizing&, const Resizing&) = default;
};

// For each element of one axis, weighted elements of another: those at
// [starts[i], starts[i + 1]) of `from` and `weights`.
struct AxisTaps {
  std::vector<std::int32_t> starts;
  std::vector<std::int32_t> from;
  std::vector<float> weights;
};
// Of slices, of rows, then of columns: of each output pixel, or, for the
// gradient, of each input pixel.
std::array<AxisTaps, 3> TapsOf(const Resizing& resizing, bool backward);

// A normalisation of each channel over images and pixels.
struct Normalisation {
  ImageExtent extent;
  double epsilon = 1e-5;

  friend bool operator==(const Normalisation&, const Normalisation&) = default;
};

// v = momentum * v + gradient; w -= rate * v.
struct UpdateRule {
  float rate = 0;
  float momentum = 0;
};

// Distances, in elements, of planes and of their rows.
struct PlaneStrides {
  std::int64_t plane = 0;
  std::int64_t row = 0;
};

// Which elements a dropout keeps: element i of the call is element `first` + i
// of the step, so that sub-batches drop what the whole batch would.
struct DropoutChoice {
  std::uint32_t seed = 0;
  std::int64_t first = 0;
  double ratio = 0.5;  // that is dropped
};

class Operators {
 public:
  virtual ~Operators() = default;

  // y = max(x, 0); y may be x.
  virtual Status Relu(BatchSize batch, std::int64_t elements, const float* x,
                      float* y) = 0;
  // dx = dy where y > 0, else 0. dx may be dy if beta is 0.
  virtual Status ReluBackward(BatchSize batch, std::int64_t elements,
                              const float* y, const float* dy, float beta,
                              float* dx) = 0;

  // y may be x.
  virtual Status Activate(BatchSize batch, std::int64_t elements,
                          const Activation& activation, const float* x,
                          float* y) = 0;
  // `saved` is y or x (Activation::saves_output). dx may be dy if beta is 0.
  virtual Status ActivateBackward(BatchSize batch, std::int64_t elements,
                                  const Activation& activation,
                                  const float* saved, const float* dy,
                                  float beta, float* dx) = 0;

  virtual Status Pool(BatchSize batch, const Pooling& pooling, const float* x,
                      float* y) = 0;
  // Of equal maxima, one receives the gradient. Averages do not read x and y,
  // which may be null.
  virtual Status PoolBackward(BatchSize batch, const Pooling& pooling,
                              const float* x, const float* y, const float* dy,
                              float beta, float* dx) = 0;

  // `parameters` are the channels' scales, then their offsets; `statistics` are
  // two floats a channel for the backward pass, in a form of the device's own.
  virtual Status Normalise(BatchSize batch, const Normalisation& normalisation,
                           const float* x, const float* parameters, float* y,
                           float* statistics) = 0;
  // `gradients` are those of `parameters`, with a beta of their own.
  virtual Status NormaliseBackward(
      BatchSize batch, const Normalisation& normalisation, const float* x,
      const float* dy, const float* parameters, const float* statistics,
      float beta, float* dx, float gradients_beta, float* gradients) = 0;

  // The same over images that several devices share, who add up `sums`, two
  // doubles a channel, between both halves of a pass:
  //   sums of x, and of x²         -> y, statistics
  //   sums of dy, and of dy * norm -> dx,    norm = (x - mean) / sigma
  // `count` is the number of elements of a channel over all images. `gradients`
  // are of this device's images alone.
  virtual Status SumForNormalise(BatchSize batch, const ImageExtent& extent,
                                 const float* x, double* sums) = 0;
  virtual Status NormaliseBySums(BatchSize batch,
                                 const Normalisation& normalisation,
                                 const float* x, const double* sums,
                                 std::int64_t count, const float* parameters,
                                 float* y, float* statistics) = 0;
  virtual Status SumForNormaliseBackward(BatchSize batch,
                                         const Normalisation& normalisation,
                                         const float* x, const float* dy,
                                         const float* statistics, double* sums,
                                         float gradients_beta,
                                         float* gradients) = 0;
  virtual Status NormaliseBackwardBySums(BatchSize batch,
                                         const Normalisation& normalisation,
                                         const float* x, const float* dy,
                                         const double* sums, std::int64_t count,
                                         const float* parameters,
                                         const float* statistics, float beta,
                                         float* dx) = 0;

  // `running` are the channels' means, then their variances. Each becomes
  // (1 - momentum) * running + momentum * that of `statistics`, whose variance
  // is over `count` elements and is corrected to be unbiased.
  virtual Status UpdateRunning(const Normalisation& normalisation,
                               const float* statistics, std::int64_t count,
                               float momentum, float* running) = 0;
  virtual Status NormaliseByRunning(BatchSize batch,
                                    const Normalisation& normalisation,
                                    const float* x, const float* parameters,
                                    const float* running, float* y) = 0;

  // y += bias, a value a channel.
  virtual Status AddBias(BatchSize batch, const ImageExtent& extent,
                         const float* bias, float* y) = 0;
  virtual Status BiasBackward(BatchSize batch, const ImageExtent& extent,
                              const float* dy, float beta, float* dbias) = 0;

  // out = alpha a + beta out, with any beta.
  virtual Status Blend(BatchSize batch, std::int64_t elements, float alpha,
                       const float* a, float beta, float* out) = 0;

  // A part of each of some planes, `rows` of `width` elements.
  // out = a + beta out.
  virtual Status CopyRows(std::int64_t planes, std::int64_t rows,
                          std::int64_t width, const float* a,
                          const PlaneStrides& strides, float beta, float* out,
                          const PlaneStrides& out_strides) = 0;

  // b has one element for `span` consecutive ones of a. out = a * b + beta out.
  virtual Status Multiply(std::int64_t count, std::int64_t span, const float* a,
                          const float* b, float beta, float* out) = 0;
  // Sums of `span` consecutive products: out = sum of a * b + beta out, `count`
  // of them.
  virtual Status SumProducts(std::int64_t count, std::int64_t span,
                             const float* a, const float* b, float beta,
                             float* out) = 0;

  virtual Status Resize(BatchSize batch, const Resizing& resizing,
                        const float* x, float* y) = 0;
  virtual Status ResizeBackward(BatchSize batch, const Resizing& resizing,
                                const float* dy, float beta, float* dx) = 0;

  virtual Status NormaliseLocally(BatchSize batch,
                                  const LocalResponse& response, const float* x,
                                  float* y) = 0;
  virtual Status NormaliseLocallyBackward(BatchSize batch,
                                          const LocalResponse& response,
                                          const float* x, const float* y,
                                          const float* dy, float beta,
                                          float* dx) = 0;

  // `velocities` may be null if the momentum is 0: then v is the gradient.
  virtual Status Update(std::int64_t count, const UpdateRule& rule,
                        const float* gradients, float* velocities,
                        float* weights) = 0;

  // The gradient of `scale` times the sum of the cross-entropies after a
  // softmax over the channels, for every pixel. `labels` and `probabilities`
  // have one value a pixel: its class, less than the channels, and the
  // probability that x gives to it, whose negative logarithm is the loss.
  virtual Status SoftmaxLoss(BatchSize batch, const ImageExtent& extent,
                             const float* x, const std::int32_t* labels,
                             float scale, float* dx, float* probabilities) = 0;

  // y = x / (1 - ratio) where the element is kept, else 0; `mask` is 1 there.
  virtual Status Dropout(BatchSize batch, std::int64_t elements,
                         const DropoutChoice& choice, const float* x, float* y,
                         std::uint8_t* mask) = 0;
  // dx may be dy.
  virtual Status DropoutBackward(BatchSize batch, std::int64_t elements,
                                 double ratio, const float* dy,
                                 const std::uint8_t* mask, float* dx) = 0;
};

// What the backends of Dropout agree on: element i is dropped if Hash(i, seed)
// is below DropoutThreshold(ratio).
constexpr std::uint32_t DropoutHash(std::uint32_t element, std::uint32_t seed) {
  std::uint32_t h = element * 0x9E3779B1U + seed;
  h = (h ^ (h >> 16)) * 0x85EBCA6BU;
  h = (h ^ (h >> 13)) * 0xC2B2AE35U;
  return h ^ (h >> 16);
}
std::uint32_t DropoutThreshold(double ratio);
// The seed under which element 0 has the hash that `choice` gives its first.
constexpr std::uint32_t DropoutSeed(const DropoutChoice& choice) {
  return choice.seed + static_cast<std::uint32_t>(choice.first) * 0x9E3779B1U;
}

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_OPERATORS_OPERATORS_H_
