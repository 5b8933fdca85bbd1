#ifndef UCUDNN_CLIENT_DROPIN_HANDLE_OPERATIONS_H_
#define UCUDNN_CLIENT_DROPIN_HANDLE_OPERATIONS_H_

// A common form for cuDNN's convolution functions. Every operation takes two
// operands, the convolution and the result, in this order, and with data, a
// pointer after each tensor:
//
//   operation        first  second  result    as CallDescriptors
//   forward          x      w       y         input, filter -> output
//   backward_data    w      dy      dx        filter, output -> input
//   backward_filter  x      dy      dw        input, output -> filter
//
// So the drop-in handle and the preload shim each name a function's parameters
// once and leave the rest to OperationCall:
//
//   return ForwardCall(x, w, conv, y, layer)
//       .Run(real, handle, alpha, px, pw, algorithm, workspace, size, beta,
//       py);
//
// where `real` is cuDNN's function.

#include <cudnn.h>

#include <cstddef>
#include <cstdint>

#include "client/dropin/handle/entry.h"

namespace ucudnn::cudnn {

template <class First, class Second, class Result>
class OperationCall {
 public:
  OperationCall(const CallDescriptors& descriptors, First first, Second second,
                Result result)
      : descriptors_(descriptors),
        first_(first),
        second_(second),
        result_(result) {}

  // cudnnGetConvolution*Algorithm_v7, cudnnFindConvolution*Algorithm.
  template <class Real, class Perf>
  cudnnStatus_t Algorithms(Real real, cudnnHandle_t handle, int requested,
                           int* returned, Perf* results) const {
    return cudnn::Algorithms(
        handle, descriptors_, kNoLimit, requested, returned, results,
        [&](int n, int* count, Perf* into) {
          return real(handle, first_, second_, descriptors_.convolution,
                      result_, n, count, into);
        });
  }

  // cudnnFindConvolution*AlgorithmEx.
  template <class Real, class Perf>
  cudnnStatus_t AlgorithmsOn(Real real, cudnnHandle_t handle, const void* first,
                             const void* second, void* result, int requested,
                             int* returned, Perf* results, void* workspace,
                             std::size_t workspace_size) const {
    return cudnn::Algorithms(
        handle, descriptors_, workspace_size, requested, returned, results,
        [&](int n, int* count, Perf* into) {
          return real(handle, first_, first, second_, second,
                      descriptors_.convolution, result_, result, n, count, into,
                      workspace, workspace_size);
        });
  }

  // cudnnGetConvolution*WorkspaceSize.
  template <class Real, class Algorithm>
  cudnnStatus_t WorkspaceSize(Real real, cudnnHandle_t handle,
                              Algorithm algorithm, std::size_t* size) const {
    return cudnn::WorkspaceSize(handle, descriptors_, algorithm, size, [&] {
      return real(handle, first_, second_, descriptors_.convolution, result_,
                  algorithm, size);
    });
  }

  // cudnnConvolution*.
  template <class Real, class Algorithm>
  cudnnStatus_t Run(Real real, cudnnHandle_t handle, const void* alpha,
                    const void* first, const void* second, Algorithm algorithm,
                    void* workspace, std::size_t workspace_size,
                    const void* beta, void* result) const {
    // ConvArgs expects the filter second.
    const bool swapped = descriptors_.op == ConvOp::kBackwardData;
    const Execution execution = {algorithm,
                                 alpha,
                                 swapped ? second : first,
                                 swapped ? first : second,
                                 result,
                                 beta,
                                 workspace,
                                 workspace_size};
    return Convolve(handle, descriptors_, execution, [&] {
      return real(handle, alpha, first_, first, second_, second,
                  descriptors_.convolution, algorithm, workspace,
                  workspace_size, beta, result_, result);
    });
  }

 private:
  const CallDescriptors descriptors_;
  const First first_;
  const Second second_;
  const Result result_;
};

inline auto ForwardCall(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                        cudnnConvolutionDescriptor_t conv,
                        cudnnTensorDescriptor_t y, std::int64_t layer = 0) {
  return OperationCall({{ConvOp::kForward, x, w, conv, y}, layer}, x, w, y);
}
inline auto BackwardDataCall(cudnnFilterDescriptor_t w,
                             cudnnTensorDescriptor_t dy,
                             cudnnConvolutionDescriptor_t conv,
                             cudnnTensorDescriptor_t dx,
                             std::int64_t layer = 0) {
  return OperationCall({{ConvOp::kBackwardData, dx, w, conv, dy}, layer}, w, dy,
                       dx);
}
inline auto BackwardFilterCall(cudnnTensorDescriptor_t x,
                               cudnnTensorDescriptor_t dy,
                               cudnnConvolutionDescriptor_t conv,
                               cudnnFilterDescriptor_t dw,
                               std::int64_t layer = 0) {
  return OperationCall({{ConvOp::kBackwardFilter, x, dw, conv, dy}, layer}, x,
                       dy, dw);
}

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_CLIENT_DROPIN_HANDLE_OPERATIONS_H_
