#include <cudnn.h>

#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "client/examples/train/layers.h"
#include "device/cudnn/cudnn_device.h"
#include "device/cudnn/driver/libraries.h"
#include "device/cudnn/handle.h"

namespace ucudnn::train {
namespace {

using cudnn::CudnnHandle;

// X(member, function): the cuDNN functions for layers other than convolutions.
// They are deprecated, but present in every version 9.
#define UCUDNN_LAYER_FUNCTIONS(X)                        \
  X(CreateActivation, cudnnCreateActivationDescriptor)   \
  X(SetActivation, cudnnSetActivationDescriptor)         \
  X(DestroyActivation, cudnnDestroyActivationDescriptor) \
  X(ActivationForward, cudnnActivationForward)           \
  X(ActivationBackward, cudnnActivationBackward)         \
  X(CreatePooling, cudnnCreatePoolingDescriptor)         \
  X(SetPooling, cudnnSetPoolingNdDescriptor)             \
  X(DestroyPooling, cudnnDestroyPoolingDescriptor)       \
  X(PoolingForward, cudnnPoolingForward)                 \
  X(PoolingBackward, cudnnPoolingBackward)               \
  X(SoftmaxForward, cudnnSoftmaxForward)

// NOLINTNEXTLINE(bugprone-macro-parentheses): declares a name
#define UCUDNN_MEMBER(member, function) decltype(&::function) member = nullptr;
struct LayerApi {
  UCUDNN_LAYER_FUNCTIONS(UCUDNN_MEMBER)
};
#undef UCUDNN_MEMBER

Result<LayerApi> LoadLayers() {
  const std::string name = fmt::format("libcudnn.so.{}", CUDNN_MAJOR);
  UCUDNN_ASSIGN_OR_RETURN(
      const auto library,
      cudnn::SharedLibrary::Open({name}, cudnn::SearchDirectories()));
  LayerApi api;
#define UCUDNN_BIND(member, function)                                          \
  api.member =                                                                 \
      reinterpret_cast<decltype(api.member)>(library.Find(#function));         \
  if (api.member == nullptr) {                                                 \
    return Fail(Code::kUnimplemented, "{} has no function {}", library.path(), \
                #function);                                                    \
  }
  UCUDNN_LAYER_FUNCTIONS(UCUDNN_BIND)
#undef UCUDNN_BIND
  return api;
}

// A cuDNN descriptor that is destroyed with its owner.
template <class T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, cudnnStatus_t (*)(T)>;

template <class T>
Result<Owned<T>> Create(CudnnHandle& handle, cudnnStatus_t (*create)(T*),
                        cudnnStatus_t (*destroy)(T), std::string_view call) {
  T descriptor = nullptr;
  UCUDNN_RETURN_IF_ERROR(handle.Check(create(&descriptor), call));
  return Owned<T>(descriptor, destroy);
}

using Tensor = Owned<cudnnTensorDescriptor_t>;

Result<Tensor> MakeTensor(CudnnHandle& handle, BatchSize batch,
                          const Extent& e) {
  const cudnn::CudnnApi& api = handle.api();
  UCUDNN_ASSIGN_OR_RETURN(auto tensor, Create<cudnnTensorDescriptor_t>(
                                           handle, api.CreateTensorDescriptor,
                                           api.DestroyTensorDescriptor,
                                           "cudnnCreateTensorDescriptor"));
  const auto whole = [](std::int64_t n) { return static_cast<int>(n); };
  const int dims[] = {whole(batch.count()), whole(e.channels), whole(e.height),
                      whole(e.width)};
  const int strides[] = {whole(e.elements()), whole(e.height * e.width),
                         whole(e.width), 1};
  UCUDNN_RETURN_IF_ERROR(
      handle.Check(api.SetTensorNdDescriptor(tensor.get(), CUDNN_DATA_FLOAT, 4,
                                             dims, strides),
                   "cudnnSetTensorNdDescriptor"));
  return tensor;
}

constexpr float kOne = 1;
constexpr float kZero = 0;

class CudnnPool : public Pool {
 public:
  CudnnPool(CudnnHandle& handle, const LayerApi& api,
            Owned<cudnnPoolingDescriptor_t> pooling, Tensor x, Tensor y)
      : handle_(handle),
        api_(api),
        pooling_(std::move(pooling)),
        x_(std::move(x)),
        y_(std::move(y)) {}

  Status Forward(const float* x, float* y) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    return handle_.Check(
        api_.PoolingForward(handle_.get(), pooling_.get(), &kOne, x_.get(), x,
                            &kZero, y_.get(), y),
        "cudnnPoolingForward");
  }

  Status Backward(const float* x, const float* y, const float* dy,
                  float* dx) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    return handle_.Check(
        api_.PoolingBackward(handle_.get(), pooling_.get(), &kOne, y_.get(), y,
                             y_.get(), dy, x_.get(), x, &kZero, x_.get(), dx),
        "cudnnPoolingBackward");
  }

 private:
  CudnnHandle& handle_;
  const LayerApi& api_;
  Owned<cudnnPoolingDescriptor_t> pooling_;
  Tensor x_;
  Tensor y_;
};

class CudnnLayers : public Layers {
 public:
  CudnnLayers(CudnnHandle& handle, const LayerApi& api,
              Owned<cudnnActivationDescriptor_t> relu)
      : handle_(handle), api_(api), relu_(std::move(relu)) {}

  static Result<std::unique_ptr<Layers>> Make(CudnnHandle& handle) {
    static const Result<LayerApi> api = LoadLayers();
    if (!api) return tl::unexpected<Error>(api.error());
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle.Enter());
    UCUDNN_ASSIGN_OR_RETURN(
        auto relu, Create<cudnnActivationDescriptor_t>(
                       handle, api->CreateActivation, api->DestroyActivation,
                       "cudnnCreateActivationDescriptor"));
    UCUDNN_RETURN_IF_ERROR(
        handle.Check(api->SetActivation(relu.get(), CUDNN_ACTIVATION_RELU,
                                        CUDNN_PROPAGATE_NAN, 0),
                     "cudnnSetActivationDescriptor"));
    return std::make_unique<CudnnLayers>(handle, *api, std::move(relu));
  }

  Result<std::unique_ptr<Pool>> MakePool(const Layer& layer, const Extent& in,
                                         const Extent& out,
                                         BatchSize batch) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(
        auto pooling, Create<cudnnPoolingDescriptor_t>(
                          handle_, api_.CreatePooling, api_.DestroyPooling,
                          "cudnnCreatePoolingDescriptor"));
    const Window& w = layer.window;
    const auto pair = [](std::int64_t height, std::int64_t width) {
      return std::pair(static_cast<int>(height), static_cast<int>(width));
    };
    const auto [height, width] = pair(w.height, w.width);
    const auto [down, right] = pair(w.stride_height, w.stride_width);
    const auto [padding, same] = pair(w.padding, w.padding);
    const int window[] = {height, width};
    const int paddings[] = {padding, same};
    const int strides[] = {down, right};
    UCUDNN_RETURN_IF_ERROR(handle_.Check(
        api_.SetPooling(pooling.get(),
                        layer.kind == Layer::Kind::kMaxPool
                            ? CUDNN_POOLING_MAX_DETERMINISTIC
                            : CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING,
                        CUDNN_PROPAGATE_NAN, 2, window, paddings, strides),
        "cudnnSetPoolingNdDescriptor"));
    UCUDNN_ASSIGN_OR_RETURN(Tensor x, MakeTensor(handle_, batch, in));
    UCUDNN_ASSIGN_OR_RETURN(Tensor y, MakeTensor(handle_, batch, out));
    return std::make_unique<CudnnPool>(handle_, api_, std::move(pooling),
                                       std::move(x), std::move(y));
  }

  Status Relu(BatchSize batch, const Extent& extent, float* x) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto form, Form(batch, extent));
    return handle_.Check(
        api_.ActivationForward(handle_.get(), relu_.get(), &kOne, form, x,
                               &kZero, form, x),
        "cudnnActivationForward");
  }

  Status ReluBackward(BatchSize batch, const Extent& extent, const float* y,
                      float* dy) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto form, Form(batch, extent));
    return handle_.Check(
        api_.ActivationBackward(handle_.get(), relu_.get(), &kOne, form, y,
                                form, dy, form, y, &kZero, form, dy),
        "cudnnActivationBackward");
  }

  Status Softmax(BatchSize batch, const Extent& extent, const float* x,
                 float* y) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto form, Form(batch, extent));
    return handle_.Check(
        api_.SoftmaxForward(handle_.get(), CUDNN_SOFTMAX_ACCURATE,
                            CUDNN_SOFTMAX_MODE_CHANNEL, &kOne, form, x, &kZero,
                            form, y),
        "cudnnSoftmaxForward");
  }

  Status Blend(BatchSize batch, const Extent& extent, float alpha,
               const float* a, float beta, float* out) override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle_.Enter());
    UCUDNN_ASSIGN_OR_RETURN(const auto form, Form(batch, extent));
    return handle_.Check(handle_.api().AddTensor(handle_.get(), &alpha, form, a,
                                                 &beta, form, out),
                         "cudnnAddTensor");
  }

 private:
  using Sizes =
      std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

  Result<cudnnTensorDescriptor_t> Form(BatchSize batch, const Extent& e) {
    const Sizes sizes(batch.count(), e.channels, e.height, e.width);
    const auto known = forms_.find(sizes);
    if (known != forms_.end()) return known->second.get();
    UCUDNN_ASSIGN_OR_RETURN(Tensor made, MakeTensor(handle_, batch, e));
    return forms_.emplace(sizes, std::move(made)).first->second.get();
  }

  CudnnHandle& handle_;
  const LayerApi& api_;
  Owned<cudnnActivationDescriptor_t> relu_;
  std::map<Sizes, Tensor> forms_;
};

}  // namespace

Result<std::unique_ptr<Layers>> MakeCudnnLayers(Device& device) {
  CudnnHandle* handle = cudnn::HandleOf(device);
  if (handle == nullptr) return nullptr;
  return CudnnLayers::Make(*handle);
}

}  // namespace ucudnn::train
