#include "device/cudnn/operators/operators.h"

#include <array>
#include <bit>
#include <map>
#include <utility>
#include <vector>

#include "device/cudnn/cudnn_device.h"
#include "device/cudnn/descriptor.h"
#include "device/cudnn/driver/libraries.h"
#include "device/cudnn/handle.h"
#include "device/cudnn/operators/kernels.h"

namespace ucudnn {
namespace cudnn {
namespace {

constexpr float kOne = 1;
constexpr float kZero = 0;

using OwnedTensor = Owned<cudnnTensorDescriptor_t>;
using OwnedPooling = Owned<cudnnPoolingDescriptor_t>;

int Whole(std::int64_t n) { return static_cast<int>(n); }
// A kernel's parameter; Launch refuses more threads than fit.
std::uint32_t Count(std::int64_t n) { return static_cast<std::uint32_t>(n); }

cudnnPoolingMode_t ModeOf(Pooling::Kind kind) {
  switch (kind) {
    case Pooling::Kind::kMax:
      return CUDNN_POOLING_MAX_DETERMINISTIC;
    case Pooling::Kind::kAverage:
      return CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
    case Pooling::Kind::kAverageInside:
      break;
  }
  return CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
}

struct ActivationKernels {
  ActivationKernel forward;
  SlopeKernel backward;
};
ActivationKernels KernelsOf(Activation::Kind kind) {
  switch (kind) {
    case Activation::Kind::kSigmoid:
      return {kSigmoid, kSigmoidBackward};
    case Activation::Kind::kHardSigmoid:
      return {kHardSigmoid, kHardSigmoidBackward};
    case Activation::Kind::kSwish:
      return {kSwish, kSwishBackward};
    case Activation::Kind::kHardSwish:
      break;
  }
  return {kHardSwish, kHardSwishBackward};
}

// Of a Resizing, in device memory.
struct PackedTaps {
  Resizing resizing;
  bool backward = false;
  std::array<DeviceBuffer, 3> axes;
};

class CudnnOperators final : public Operators {
 public:
  static Result<std::unique_ptr<Operators>> Make(Device& device,
                                                 CudnnHandle& handle) {
    const CudnnApi& api = handle.api();
    UCUDNN_RETURN_IF_ERROR(CheckOperators(api));
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle.Enter());
    UCUDNN_ASSIGN_OR_RETURN(
        auto relu, Create(handle, api.CreateActivation, api.DestroyActivation));
    UCUDNN_RETURN_IF_ERROR(handle.Call(api.SetActivation, relu.get(),
                                       CUDNN_ACTIVATION_RELU,
                                       CUDNN_PROPAGATE_NAN, 0));
    UCUDNN_ASSIGN_OR_RETURN(auto kernels, Kernels::Load(handle));
    return std::make_unique<CudnnOperators>(
        device, handle, api, std::move(relu), std::move(kernels));
  }

  CudnnOperators(Device& device, CudnnHandle& handle, const CudnnApi& api,
                 Owned<cudnnActivationDescriptor_t> relu,
                 std::unique_ptr<Kernels> kernels)
      : device_(device),
        handle_(handle),
        api_(api),
        relu_(std::move(relu)),
        kernels_(std::move(kernels)) {}

  Status Relu(BatchSize batch, std::int64_t elements, const float* x,
              float* y) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto rows, Rows(batch, elements));
    return handle_.Call(api_.ActivationForward, handle_.get(), relu_.get(),
                        &kOne, rows, x, &kZero, rows, y);
  }

  Status ReluBackward(BatchSize batch, std::int64_t elements, const float* y,
                      const float* dy, float beta, float* dx) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto rows, Rows(batch, elements));
    // y is positive where x is.
    return handle_.Call(api_.ActivationBackward, handle_.get(), relu_.get(),
                        &kOne, rows, y, rows, dy, rows, y, &beta, rows, dx);
  }

  Status Activate(BatchSize batch, std::int64_t elements,
                  const Activation& activation, const float* x,
                  float* y) override {
    const std::int64_t count = batch.count() * elements;
    return kernels_->Launch(KernelsOf(activation.kind).forward, count, x, y,
                            Count(count), activation.alpha, activation.beta);
  }

  Status ActivateBackward(BatchSize batch, std::int64_t elements,
                          const Activation& activation, const float* saved,
                          const float* dy, float beta, float* dx) override {
    const std::int64_t count = batch.count() * elements;
    return kernels_->Launch(KernelsOf(activation.kind).backward, count, saved,
                            dy, dx, Count(count), activation.alpha, beta);
  }

  Status CopyRows(std::int64_t planes, std::int64_t rows, std::int64_t width,
                  const float* a, const PlaneStrides& strides, float beta,
                  float* out, const PlaneStrides& out_strides) override {
    const std::int64_t count = planes * rows * width;
    return kernels_->Launch(kCopyRows, count, a, out, Count(count),
                            Count(width), Count(rows), Count(strides.plane),
                            Count(strides.row), Count(out_strides.plane),
                            Count(out_strides.row), beta);
  }

  Status Multiply(std::int64_t count, std::int64_t span, const float* a,
                  const float* b, float beta, float* out) override {
    return kernels_->Launch(kMultiply, count, a, b, out, Count(count),
                            Count(span), beta);
  }

  Status SumProducts(std::int64_t count, std::int64_t span, const float* a,
                     const float* b, float beta, float* out) override {
    if (span == 1) {
      return kernels_->Launch(kMultiply, count, a, b, out, Count(count), 1,
                              beta);
    }
    return kernels_->Launch(kSumProducts, count * kBlockThreads, a, b, out,
                            Count(span), Count(span), 0, beta);
  }

  Status Resize(BatchSize batch, const Resizing& resizing, const float* x,
                float* y) override {
    return Resample(batch, resizing, false, x, 0, y);
  }

  Status ResizeBackward(BatchSize batch, const Resizing& resizing,
                        const float* dy, float beta, float* dx) override {
    return Resample(batch, resizing, true, dy, beta, dx);
  }

  Status NormaliseLocally(BatchSize batch, const LocalResponse& response,
                          const float* x, float* y) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto window, WindowOf(response));
    UCUDNN_ASSIGN_OR_RETURN(const auto images, Images(batch, response.extent));
    return handle_.Call(api_.LocalResponseForward, handle_.get(), window,
                        CUDNN_LRN_CROSS_CHANNEL_DIM1, &kOne, images, x, &kZero,
                        images, y);
  }

  Status NormaliseLocallyBackward(BatchSize batch,
                                  const LocalResponse& response, const float* x,
                                  const float* y, const float* dy, float beta,
                                  float* dx) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto window, WindowOf(response));
    UCUDNN_ASSIGN_OR_RETURN(const auto images, Images(batch, response.extent));
    return handle_.Call(api_.LocalResponseBackward, handle_.get(), window,
                        CUDNN_LRN_CROSS_CHANNEL_DIM1, &kOne, images, y, images,
                        dy, images, x, &beta, images, dx);
  }

  Status Pool(BatchSize batch, const Pooling& pooling, const float* x,
              float* y) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto window, WindowOf(pooling));
    UCUDNN_ASSIGN_OR_RETURN(const auto in,
                            Pooled(batch, pooling, pooling.input));
    UCUDNN_ASSIGN_OR_RETURN(const auto out,
                            Pooled(batch, pooling, pooling.output));
    return handle_.Call(api_.PoolingForward, handle_.get(), window, &kOne, in,
                        x, &kZero, out, y);
  }

  Status PoolBackward(BatchSize batch, const Pooling& pooling, const float* x,
                      const float* y, const float* dy, float beta,
                      float* dx) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto window, WindowOf(pooling));
    UCUDNN_ASSIGN_OR_RETURN(const auto in,
                            Pooled(batch, pooling, pooling.input));
    UCUDNN_ASSIGN_OR_RETURN(const auto out,
                            Pooled(batch, pooling, pooling.output));
    if (pooling.kind != Pooling::Kind::kMax) {
      // The values do not count, but cuDNN wants pointers.
      x = dx;
      y = dy;
    }
    return handle_.Call(api_.PoolingBackward, handle_.get(), window, &kOne, out,
                        y, out, dy, in, x, &beta, in, dx);
  }

  // The statistics are cuDNN's: the channels' means, then 1 / sigma.
  Status Normalise(BatchSize batch, const Normalisation& normalisation,
                   const float* x, const float* parameters, float* y,
                   float* statistics) override {
    const ImageExtent& extent = normalisation.extent;
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto images, Images(batch, extent));
    UCUDNN_ASSIGN_OR_RETURN(const auto channels, Channels(extent));
    const std::int64_t c = extent.channels;
    return handle_.Call(api_.NormalisationForward, handle_.get(),
                        CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, images, x,
                        images, y, channels, parameters, parameters + c, 1.0,
                        nullptr, nullptr, normalisation.epsilon, statistics,
                        statistics + c);
  }

  Status NormaliseBackward(BatchSize batch, const Normalisation& normalisation,
                           const float* x, const float* dy,
                           const float* parameters, const float* statistics,
                           float beta, float* dx, float gradients_beta,
                           float* gradients) override {
    const ImageExtent& extent = normalisation.extent;
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto images, Images(batch, extent));
    UCUDNN_ASSIGN_OR_RETURN(const auto channels, Channels(extent));
    const std::int64_t c = extent.channels;
    return handle_.Call(api_.NormalisationBackward, handle_.get(),
                        CUDNN_BATCHNORM_SPATIAL, &kOne, &beta, &kOne,
                        &gradients_beta, images, x, images, dy, images, dx,
                        channels, parameters, gradients, gradients + c,
                        normalisation.epsilon, statistics, statistics + c);
  }

  Status SumForNormalise(BatchSize batch, const ImageExtent& extent,
                         const float* x, double* sums) override {
    return kernels_->Launch(kNormaliseSums, extent.channels * kBlockThreads, x,
                            sums, Count(batch.count() * extent.pixels()),
                            Count(extent.pixels()), Count(extent.channels));
  }

  Status NormaliseBySums(BatchSize batch, const Normalisation& normalisation,
                         const float* x, const double* sums, std::int64_t count,
                         const float* parameters, float* y,
                         float* statistics) override {
    const ImageExtent& extent = normalisation.extent;
    UCUDNN_RETURN_IF_ERROR(kernels_->Launch(
        kNormaliseStatistics, extent.channels, sums, statistics,
        Count(extent.channels), 1 / static_cast<double>(count),
        normalisation.epsilon));
    const std::int64_t elements = batch.count() * extent.elements();
    return kernels_->Launch(kNormalise, elements, x, statistics, parameters, y,
                            Count(elements), Count(extent.pixels()),
                            Count(extent.channels));
  }

  Status SumForNormaliseBackward(BatchSize batch,
                                 const Normalisation& normalisation,
                                 const float* x, const float* dy,
                                 const float* statistics, double* sums,
                                 float gradients_beta,
                                 float* gradients) override {
    const ImageExtent& extent = normalisation.extent;
    return kernels_->Launch(
        kNormaliseBackwardSums, extent.channels * kBlockThreads, x, dy,
        statistics, sums, gradients, Count(batch.count() * extent.pixels()),
        Count(extent.pixels()), Count(extent.channels), gradients_beta);
  }

  Status NormaliseBackwardBySums(BatchSize batch,
                                 const Normalisation& normalisation,
                                 const float* x, const float* dy,
                                 const double* sums, std::int64_t count,
                                 const float* parameters,
                                 const float* statistics, float beta,
                                 float* dx) override {
    const ImageExtent& extent = normalisation.extent;
    const std::int64_t elements = batch.count() * extent.elements();
    return kernels_->Launch(kNormaliseBackward, elements, x, dy, sums,
                            statistics, parameters, dx, Count(elements),
                            Count(extent.pixels()), Count(extent.channels),
                            1 / static_cast<double>(count), beta);
  }

  Status UpdateRunning(const Normalisation& normalisation,
                       const float* statistics, std::int64_t count,
                       float momentum, float* running) override {
    const auto n = static_cast<float>(count);
    const std::int64_t channels = normalisation.extent.channels;
    return kernels_->Launch(kUpdateRunning, channels, statistics, running,
                            Count(channels), momentum,
                            count > 1 ? n / (n - 1) : 1.0F,
                            static_cast<float>(normalisation.epsilon));
  }

  Status NormaliseByRunning(BatchSize batch, const Normalisation& normalisation,
                            const float* x, const float* parameters,
                            const float* running, float* y) override {
    const ImageExtent& extent = normalisation.extent;
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto images, Images(batch, extent));
    UCUDNN_ASSIGN_OR_RETURN(const auto channels, Channels(extent));
    const std::int64_t c = extent.channels;
    return handle_.Call(api_.NormalisationInference, handle_.get(),
                        CUDNN_BATCHNORM_SPATIAL, &kOne, &kZero, images, x,
                        images, y, channels, parameters, parameters + c,
                        running, running + c, normalisation.epsilon);
  }

  Status AddBias(BatchSize batch, const ImageExtent& extent, const float* bias,
                 float* y) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto images, Images(batch, extent));
    UCUDNN_ASSIGN_OR_RETURN(const auto channels, Channels(extent));
    return handle_.Call(api_.AddTensor, handle_.get(), &kOne, channels, bias,
                        &kOne, images, y);
  }

  Status BiasBackward(BatchSize batch, const ImageExtent& extent,
                      const float* dy, float beta, float* dbias) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto images, Images(batch, extent));
    UCUDNN_ASSIGN_OR_RETURN(const auto channels, Channels(extent));
    return handle_.Call(api_.BiasBackward, handle_.get(), &kOne, images, dy,
                        &beta, channels, dbias);
  }

  Status Blend(BatchSize batch, std::int64_t elements, float alpha,
               const float* a, float beta, float* out) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto rows, Rows(batch, elements));
    return handle_.Call(api_.AddTensor, handle_.get(), &alpha, rows, a, &beta,
                        rows, out);
  }

  Status Update(std::int64_t count, const UpdateRule& rule,
                const float* gradients, float* velocities,
                float* weights) override {
    if (velocities == nullptr) {
      return Blend(BatchSize(1), count, -rule.rate, gradients, 1.0F, weights);
    }
    return kernels_->Launch(kUpdate, count, gradients, velocities, weights,
                            Count(count), rule.rate, rule.momentum);
  }

  Status SoftmaxLoss(BatchSize batch, const ImageExtent& extent, const float* x,
                     const std::int32_t* labels, float scale, float* dx,
                     float* probabilities) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto images, Images(batch, extent));
    UCUDNN_RETURN_IF_ERROR(handle_.Call(
        api_.SoftmaxForward, handle_.get(), CUDNN_SOFTMAX_ACCURATE,
        CUDNN_SOFTMAX_MODE_CHANNEL, &scale, images, x, &kZero, images, dx));
    const std::int64_t count = batch.count() * extent.pixels();
    return kernels_->Launch(kSubtractLabels, count, dx, labels, probabilities,
                            Count(count), Count(extent.pixels()),
                            Count(extent.channels), scale, 1 / scale);
  }

  Status Dropout(BatchSize batch, std::int64_t elements,
                 const DropoutChoice& choice, const float* x, float* y,
                 std::uint8_t* mask) override {
    const std::int64_t count = batch.count() * elements;
    return kernels_->Launch(kDropout, count, x, y, mask, Count(count),
                            DropoutSeed(choice), DropoutThreshold(choice.ratio),
                            static_cast<float>(1 / (1 - choice.ratio)));
  }

  Status DropoutBackward(BatchSize batch, std::int64_t elements, double ratio,
                         const float* dy, const std::uint8_t* mask,
                         float* dx) override {
    const std::int64_t count = batch.count() * elements;
    return kernels_->Launch(kDropoutBackward, count, dy, dx, mask, Count(count),
                            static_cast<float>(1 / (1 - ratio)));
  }

 private:
  using Sizes = std::vector<int>;

  Result<cudnnTensorDescriptor_t> Rows(BatchSize batch, std::int64_t elements) {
    return Tensor({Whole(batch.count()), 1, 1, Whole(elements)});
  }
  // For operators to which a volume's slices are more rows.
  Result<cudnnTensorDescriptor_t> Images(BatchSize batch,
                                         const ImageExtent& e) {
    return Tensor({Whole(batch.count()), Whole(e.channels),
                   Whole(e.depth * e.height), Whole(e.width)});
  }
  // What a pool reads or makes.
  Result<cudnnTensorDescriptor_t> Pooled(BatchSize batch,
                                         const Pooling& pooling,
                                         const ImageExtent& e) {
    if (!pooling.of_volumes()) return Images(batch, e);
    return Tensor({Whole(batch.count()), Whole(e.channels), Whole(e.depth),
                   Whole(e.height), Whole(e.width)});
  }
  Result<cudnnTensorDescriptor_t> Channels(const ImageExtent& e) {
    return Tensor({1, Whole(e.channels), 1, 1});
  }

  // A packed tensor, made when its sizes come for the first time.
  Result<cudnnTensorDescriptor_t> Tensor(const Sizes& sizes) {
    const auto known = tensors_.find(sizes);
    if (known != tensors_.end()) return known->second.get();
    std::vector<int> strides(sizes.size(), 1);
    for (std::size_t i = sizes.size() - 1; i-- > 0;) {
      strides[i] = strides[i + 1] * sizes[i + 1];
    }
    UCUDNN_ASSIGN_OR_RETURN(
        auto tensor, CreateTensor(handle_, CUDNN_DATA_FLOAT, sizes, strides));
    return tensors_.emplace(sizes, std::move(tensor)).first->second.get();
  }

  Status Resample(BatchSize batch, const Resizing& resizing, bool backward,
                  const float* from, float beta, float* to) {
    UCUDNN_ASSIGN_OR_RETURN(const PackedTaps* const taps,
                            TapsOnDevice(resizing, backward));
    const ImageExtent& in = backward ? resizing.output : resizing.input;
    const ImageExtent& out = backward ? resizing.input : resizing.output;
    const std::int64_t count = batch.count() * out.elements();
    const auto& [slices, rows, columns] = taps->axes;
    return kernels_->Launch(
        kResample, count, from, to, slices.data(), rows.data(), columns.data(),
        Count(count), Count(out.depth), Count(out.height), Count(out.width),
        Count(in.depth), Count(in.height), Count(in.width), beta);
  }

  // The taps as the kernel reads them, put there when they come for the first
  // time.
  Result<const PackedTaps*> TapsOnDevice(const Resizing& resizing,
                                         bool backward) {
    for (const auto& known : taps_) {
      if (known->resizing == resizing && known->backward == backward) {
        return known.get();
      }
    }
    auto packed = std::make_unique<PackedTaps>();
    packed->resizing = resizing;
    packed->backward = backward;
    const std::array<AxisTaps, 3> axes = TapsOf(resizing, backward);
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      const AxisTaps& taps = axes[axis];
      std::vector<std::int32_t> words = taps.starts;
      for (std::size_t i = 0; i < taps.from.size(); ++i) {
        words.push_back(taps.from[i]);
        words.push_back(std::bit_cast<std::int32_t>(taps.weights[i]));
      }
      const Bytes bytes(std::ssize(words) * std::int64_t{4});
      DeviceBuffer& buffer = packed->axes[axis];
      UCUDNN_ASSIGN_OR_RETURN(buffer, device_.Allocate(bytes));
      UCUDNN_RETURN_IF_ERROR(
          device_.Upload(buffer.data(), words.data(), bytes));
    }
    return taps_.emplace_back(std::move(packed)).get();
  }

  Result<cudnnPoolingDescriptor_t> WindowOf(const Pooling& pooling) {
    for (const auto& [known, descriptor] : poolings_) {
      if (known == pooling) return descriptor.get();
    }
    UCUDNN_ASSIGN_OR_RETURN(auto descriptor, Create(handle_, api_.CreatePooling,
                                                    api_.DestroyPooling));
    std::vector<int> extents;
    std::vector<int> paddings;
    std::vector<int> strides;
    for (std::size_t axis = pooling.of_volumes() ? 0 : 1; axis < 3; ++axis) {
      const Window& window = pooling.windows[axis];
      extents.push_back(Whole(window.extent));
      paddings.push_back(Whole(window.before));
      strides.push_back(Whole(window.stride));
    }
    UCUDNN_RETURN_IF_ERROR(
        handle_.Call(api_.SetPooling, descriptor.get(), ModeOf(pooling.kind),
                     CUDNN_PROPAGATE_NAN, static_cast<int>(extents.size()),
                     extents.data(), paddings.data(), strides.data()));
    return poolings_.emplace_back(pooling, std::move(descriptor)).second.get();
  }

  Result<cudnnLRNDescriptor_t> WindowOf(const LocalResponse& response) {
    for (const auto& [known, descriptor] : responses_) {
      if (known == response) return descriptor.get();
    }
    UCUDNN_ASSIGN_OR_RETURN(
        auto descriptor,
        Create(handle_, api_.CreateLocalResponse, api_.DestroyLocalResponse));
    UCUDNN_RETURN_IF_ERROR(
        handle_.Call(api_.SetLocalResponse, descriptor.get(),
                     static_cast<unsigned int>(response.size), response.alpha,
                     response.beta, response.bias));
    return responses_.emplace_back(response, std::move(descriptor))
        .second.get();
  }

  Device& device_;
  CudnnHandle& handle_;
  const CudnnApi& api_;
  Owned<cudnnActivationDescriptor_t> relu_;
  std::unique_ptr<Kernels> kernels_;
  std::map<Sizes, OwnedTensor> tensors_;
  std::vector<std::unique_ptr<PackedTaps>> taps_;
  std::vector<std::pair<Pooling, OwnedPooling>> poolings_;
  std::vector<std::pair<LocalResponse, Owned<cudnnLRNDescriptor_t>>> responses_;
};

}  // namespace
}  // namespace cudnn

Result<std::unique_ptr<Operators>> OpenCudnnOperators(Device& device) {
  cudnn::CudnnHandle* handle = cudnn::HandleOf(device);
  if (handle == nullptr) return nullptr;
  return cudnn::CudnnOperators::Make(device, *handle);
}

}  // namespace ucudnn
