#ifndef UCUDNN_DEVICE_CUDNN_OPERATORS_API_H_
#define UCUDNN_DEVICE_CUDNN_OPERATORS_API_H_

// cuDNN's functions for operators other than convolutions. They are deprecated,
// but present in versions 8 and 9.

#include <cudnn.h>

#include "base/result.h"
#include "device/cudnn/driver/function.h"

namespace ucudnn::cudnn {

#define UCUDNN_OPERATOR_FUNCTIONS(X)                                 \
  X(CreateActivation, cudnnCreateActivationDescriptor)               \
  X(SetActivation, cudnnSetActivationDescriptor)                     \
  X(DestroyActivation, cudnnDestroyActivationDescriptor)             \
  X(ActivationForward, cudnnActivationForward)                       \
  X(ActivationBackward, cudnnActivationBackward)                     \
  X(CreatePooling, cudnnCreatePoolingDescriptor)                     \
  X(SetPooling, cudnnSetPoolingNdDescriptor)                         \
  X(DestroyPooling, cudnnDestroyPoolingDescriptor)                   \
  X(CreateLocalResponse, cudnnCreateLRNDescriptor)                   \
  X(SetLocalResponse, cudnnSetLRNDescriptor)                         \
  X(DestroyLocalResponse, cudnnDestroyLRNDescriptor)                 \
  X(LocalResponseForward, cudnnLRNCrossChannelForward)               \
  X(LocalResponseBackward, cudnnLRNCrossChannelBackward)             \
  X(PoolingForward, cudnnPoolingForward)                             \
  X(PoolingBackward, cudnnPoolingBackward)                           \
  X(NormalisationForward, cudnnBatchNormalizationForwardTraining)    \
  X(NormalisationBackward, cudnnBatchNormalizationBackward)          \
  X(NormalisationInference, cudnnBatchNormalizationForwardInference) \
  X(BiasBackward, cudnnConvolutionBackwardBias)                      \
  X(SoftmaxForward, cudnnSoftmaxForward)

// NOLINTNEXTLINE(bugprone-macro-parentheses): declares a name
#define UCUDNN_MEMBER(member, function) \
  Function<decltype(::function)> member{#function};
struct OperatorApi {
  UCUDNN_OPERATOR_FUNCTIONS(UCUDNN_MEMBER)
};
#undef UCUDNN_MEMBER

// Loaded once. Errors of LoadedLibraries; kUnimplemented, naming the function,
// if cuDNN lacks one.
Result<const OperatorApi*> LoadedOperators();

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_OPERATORS_API_H_
