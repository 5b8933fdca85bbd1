#include "device/cudnn/operators/fused_norm.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "device/cudnn/cudnn_device.h"
#include "device/cudnn/descriptor.h"
#include "device/cudnn/handle.h"
#include "device/cudnn/operators/api.h"

namespace ucudnn {
namespace cudnn {
namespace {

constexpr float kAlpha = 1;
constexpr float kBeta = 0;
// The mode of the kernels that fuse; they read x once where it fits on the
// chip.
constexpr auto kMode = CUDNN_BATCHNORM_SPATIAL_PERSISTENT;

Bytes OfSize(std::size_t size) {
  return Bytes(static_cast<std::int64_t>(size));
}
std::size_t SizeOf(const NormWorkspace& workspace) {
  return static_cast<std::size_t>(workspace.size.count());
}

class CudnnFusedNorm final : public FusedNorm {
 public:
  static Result<std::unique_ptr<FusedNorm>> Make(CudnnHandle& handle,
                                                 const NormProblem& problem) {
    UCUDNN_RETURN_IF_ERROR(Validate(problem));
    UCUDNN_ASSIGN_OR_RETURN(const FusedNormApi* api, LoadedFusedNorm());
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle.Enter());
    const CudnnApi& cudnn = handle.api();
    std::unique_ptr<CudnnFusedNorm> norm(
        new CudnnFusedNorm(handle, *api, problem));
    for (auto* tensor : {&norm->images_, &norm->channels_}) {
      UCUDNN_ASSIGN_OR_RETURN(*tensor, Create<cudnnTensorDescriptor_t>(
                                           handle, cudnn.CreateTensorDescriptor,
                                           cudnn.DestroyTensorDescriptor,
                                           "cudnnCreateTensorDescriptor"));
    }
    UCUDNN_ASSIGN_OR_RETURN(
        norm->relu_, Create<cudnnActivationDescriptor_t>(
                         handle, api->CreateActivation, api->DestroyActivation,
                         "cudnnCreateActivationDescriptor"));
    UCUDNN_RETURN_IF_ERROR(norm->Describe());
    UCUDNN_RETURN_IF_ERROR(norm->AskSizes());
    return norm;
  }

  Bytes forward_workspace() const override { return forward_workspace_; }
  Bytes backward_workspace() const override { return backward_workspace_; }
  Bytes reserve() const override { return reserve_; }

  Status Forward(const NormForward& of,
                 const NormWorkspace& workspace) override {
    UCUDNN_RETURN_IF_ERROR(CheckRun(problem_, *this, of, workspace));
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    const cudnnTensorDescriptor_t images = images_.get();
    return handle_.Check(
        api_.Forward(handle_.get(), kMode, operations(), &kAlpha, &kBeta,
                     images, of.x, addend(), of.z, images, of.y,
                     channels_.get(), of.scale, of.bias, of.momentum,
                     of.running_mean, of.running_variance, of.epsilon, of.mean,
                     of.inverse_deviation, relu_.get(), workspace.memory,
                     SizeOf(workspace), of.reserve, reserve_size()),
        "cudnnBatchNormalizationForwardTrainingEx");
  }

  Status Backward(const NormBackward& of,
                  const NormWorkspace& workspace) override {
    UCUDNN_RETURN_IF_ERROR(CheckRun(problem_, *this, of, workspace));
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    const cudnnTensorDescriptor_t images = images_.get();
    // cuDNN asks for y, but does not read it: it derives where y is 0 from x,
    // or from the reserve if there is a sum. So y need not be kept.
    const void* const y = of.x;
    return handle_.Check(
        api_.Backward(handle_.get(), kMode, operations(), &kAlpha, &kBeta,
                      &kAlpha, &kBeta, images, of.x, images, y, images, of.dy,
                      addend(), of.dz, images, of.dx, channels_.get(), of.scale,
                      of.bias, of.dscale, of.dbias, of.epsilon, of.mean,
                      of.inverse_deviation, relu_.get(), workspace.memory,
                      SizeOf(workspace), of.reserve, reserve_size()),
        "cudnnBatchNormalizationBackwardEx");
  }

 private:
  CudnnFusedNorm(CudnnHandle& handle, const FusedNormApi& api,
                 const NormProblem& problem)
      : handle_(handle), api_(api), problem_(problem) {}

  Status Describe() {
    const CudnnApi& cudnn = handle_.api();
    const auto n = static_cast<int>(problem_.images);
    const auto c = static_cast<int>(problem_.channels);
    const auto h = static_cast<int>(problem_.height);
    const auto w = static_cast<int>(problem_.width);
    const std::int64_t image = problem_.channels * problem_.height;
    if (image > INT32_MAX / problem_.width) {
      return Fail(Code::kUnimplemented,
                  "an image of {} x {} x {} elements is too large for cuDNN", c,
                  h, w);
    }
    const int dims[] = {n, c, h, w};
    const int strides[] = {h * w * c, 1, w * c, c};
    const auto type = problem_.element == NormProblem::Element::kHalf
                          ? CUDNN_DATA_HALF
                          : CUDNN_DATA_BFLOAT16;
    UCUDNN_RETURN_IF_ERROR(handle_.Check(
        cudnn.SetTensorNdDescriptor(images_.get(), type, 4, dims, strides),
        "cudnnSetTensorNdDescriptor"));
    const int channel_dims[] = {1, c, 1, 1};
    const int channel_strides[] = {c, 1, c, c};
    UCUDNN_RETURN_IF_ERROR(handle_.Check(
        cudnn.SetTensorNdDescriptor(channels_.get(), CUDNN_DATA_FLOAT, 4,
                                    channel_dims, channel_strides),
        "cudnnSetTensorNdDescriptor"));
    return handle_.Check(api_.SetActivation(relu_.get(), CUDNN_ACTIVATION_RELU,
                                            CUDNN_PROPAGATE_NAN, 0),
                         "cudnnSetActivationDescriptor");
  }

  Status AskSizes() {
    const cudnnTensorDescriptor_t images = images_.get();
    std::size_t size = 0;
    UCUDNN_RETURN_IF_ERROR(handle_.Check(
        api_.ForwardWorkspace(handle_.get(), kMode, operations(), images,
                              addend(), images, channels_.get(), relu_.get(),
                              &size),
        "cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize"));
    forward_workspace_ = OfSize(size);
    UCUDNN_RETURN_IF_ERROR(handle_.Check(
        api_.BackwardWorkspace(handle_.get(), kMode, operations(), images,
                               images, images, addend(), images,
                               channels_.get(), relu_.get(), &size),
        "cudnnGetBatchNormalizationBackwardExWorkspaceSize"));
    backward_workspace_ = OfSize(size);
    UCUDNN_RETURN_IF_ERROR(
        handle_.Check(api_.Reserve(handle_.get(), kMode, operations(),
                                   relu_.get(), images, &size),
                      "cudnnGetBatchNormalizationTrainingExReserveSpaceSize"));
    reserve_ = OfSize(size);
    return {};
  }

  cudnnBatchNormOps_t operations() const {
    return problem_.adds ? CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION
                         : CUDNN_BATCHNORM_OPS_BN_ACTIVATION;
  }
  cudnnTensorDescriptor_t addend() const {
    return problem_.adds ? images_.get() : nullptr;
  }
  std::size_t reserve_size() const {
    return static_cast<std::size_t>(reserve_.count());
  }

  CudnnHandle& handle_;
  const FusedNormApi& api_;
  const NormProblem problem_;
  Owned<cudnnTensorDescriptor_t> images_{nullptr, nullptr};
  Owned<cudnnTensorDescriptor_t> channels_{nullptr, nullptr};
  Owned<cudnnActivationDescriptor_t> relu_{nullptr, nullptr};
  Bytes forward_workspace_;
  Bytes backward_workspace_;
  Bytes reserve_;
};

}  // namespace
}  // namespace cudnn

Result<std::unique_ptr<FusedNorm>> OpenCudnnFusedNorm(
    Device& device, const NormProblem& problem) {
  cudnn::CudnnHandle* const handle = cudnn::HandleOf(device);
  if (handle == nullptr) {
    return Fail(Code::kUnimplemented,
                "only GPUs fuse normalizations with what follows them");
  }
  return cudnn::CudnnFusedNorm::Make(*handle, problem);
}

}  // namespace ucudnn
