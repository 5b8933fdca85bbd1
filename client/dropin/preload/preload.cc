// libucudnn_preload.so runs the cuDNN convolutions of an unmodified program in
// micro-batches:
//
//   LD_PRELOAD=libucudnn_preload.so program
//
// Each cuDNN function defined here is an entry point (entry.h) whose `plain` is
// the function that the program would have called. The program sees nothing
// else (preload.map).

#include <cudnn.h>
#include <dlfcn.h>

#include "client/dropin/handle/handle_state.h"
#include "client/dropin/handle/operations.h"
#include "device/cudnn/driver/libraries.h"

using ucudnn::cudnn::BackwardDataCall;
using ucudnn::cudnn::BackwardFilterCall;
using ucudnn::cudnn::ForwardCall;

namespace {

// The function that the program would call without the shim: the next
// definition of the name or, for programs that load cuDNN themselves, the
// library's. Null if there is neither.
template <auto function>
decltype(function) Real(const char* name) {
  static const auto real = [&]() -> decltype(function) {
    if (void* const next = dlsym(RTLD_NEXT, name)) {
      return reinterpret_cast<decltype(function)>(next);
    }
    const auto library =
        ucudnn::cudnn::OpenCudnn(ucudnn::cudnn::SearchDirectories());
    return library ? reinterpret_cast<decltype(function)>(library->Find(name))
                   : nullptr;
  }();
  return real;
}

}  // namespace

#define UCUDNN_REAL(function)                            \
  static const auto real = Real<&(function)>(#function); \
  if (real == nullptr) return CUDNN_STATUS_NOT_INITIALIZED

#pragma GCC visibility push(default)
extern "C" {

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  UCUDNN_REAL(cudnnDestroy);
  // Our own handles, used for measuring, have no state.
  if (!ucudnn::cudnn::ReentrancyGuard::is_active()) {
    ucudnn::cudnn::ForgetHandle(handle);
  }
  return real(handle);
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y,
    const int requested, int* returned,
    cudnnConvolutionFwdAlgoPerf_t* results) {
  UCUDNN_REAL(cudnnGetConvolutionForwardAlgorithm_v7);
  return ForwardCall(x, w, conv, y)
      .Algorithms(real, handle, requested, returned, results);
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y,
    const int requested, int* returned,
    cudnnConvolutionFwdAlgoPerf_t* results) {
  UCUDNN_REAL(cudnnFindConvolutionForwardAlgorithm);
  return ForwardCall(x, w, conv, y)
      .Algorithms(real, handle, requested, returned, results);
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, const void* px,
    cudnnFilterDescriptor_t w, const void* pw,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, void* py,
    const int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* results,
    void* workspace, std::size_t workspace_size) {
  UCUDNN_REAL(cudnnFindConvolutionForwardAlgorithmEx);
  return ForwardCall(x, w, conv, y)
      .AlgorithmsOn(real, handle, px, pw, py, requested, returned, results,
                    workspace, workspace_size);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algorithm, std::size_t* size) {
  UCUDNN_REAL(cudnnGetConvolutionForwardWorkspaceSize);
  return ForwardCall(x, w, conv, y)
      .WorkspaceSize(real, handle, algorithm, size);
}

cudnnStatus_t cudnnConvolutionForward(
    cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
    const void* px, cudnnFilterDescriptor_t w, const void* pw,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algorithm,
    void* workspace, std::size_t workspace_size, const void* beta,
    cudnnTensorDescriptor_t y, void* py) {
  UCUDNN_REAL(cudnnConvolutionForward);
  return ForwardCall(x, w, conv, y)
      .Run(real, handle, alpha, px, pw, algorithm, workspace, workspace_size,
           beta, py);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx,
    const int requested, int* returned,
    cudnnConvolutionBwdDataAlgoPerf_t* results) {
  UCUDNN_REAL(cudnnGetConvolutionBackwardDataAlgorithm_v7);
  return BackwardDataCall(w, dy, conv, dx)
      .Algorithms(real, handle, requested, returned, results);
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx,
    const int requested, int* returned,
    cudnnConvolutionBwdDataAlgoPerf_t* results) {
  UCUDNN_REAL(cudnnFindConvolutionBackwardDataAlgorithm);
  return BackwardDataCall(w, dy, conv, dx)
      .Algorithms(real, handle, requested, returned, results);
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, const void* pw,
    cudnnTensorDescriptor_t dy, const void* pdy,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx, void* pdx,
    const int requested, int* returned,
    cudnnConvolutionBwdDataAlgoPerf_t* results, void* workspace,
    std::size_t workspace_size) {
  UCUDNN_REAL(cudnnFindConvolutionBackwardDataAlgorithmEx);
  return BackwardDataCall(w, dy, conv, dx)
      .AlgorithmsOn(real, handle, pw, pdy, pdx, requested, returned, results,
                    workspace, workspace_size);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algorithm, std::size_t* size) {
  UCUDNN_REAL(cudnnGetConvolutionBackwardDataWorkspaceSize);
  return BackwardDataCall(w, dy, conv, dx)
      .WorkspaceSize(real, handle, algorithm, size);
}

cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w,
    const void* pw, cudnnTensorDescriptor_t dy, const void* pdy,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdDataAlgo_t algorithm,
    void* workspace, std::size_t workspace_size, const void* beta,
    cudnnTensorDescriptor_t dx, void* pdx) {
  UCUDNN_REAL(cudnnConvolutionBackwardData);
  return BackwardDataCall(w, dy, conv, dx)
      .Run(real, handle, alpha, pw, pdy, algorithm, workspace, workspace_size,
           beta, pdx);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw,
    const int requested, int* returned,
    cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  UCUDNN_REAL(cudnnGetConvolutionBackwardFilterAlgorithm_v7);
  return BackwardFilterCall(x, dy, conv, dw)
      .Algorithms(real, handle, requested, returned, results);
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw,
    const int requested, int* returned,
    cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  UCUDNN_REAL(cudnnFindConvolutionBackwardFilterAlgorithm);
  return BackwardFilterCall(x, dy, conv, dw)
      .Algorithms(real, handle, requested, returned, results);
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, const void* px,
    cudnnTensorDescriptor_t dy, const void* pdy,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw, void* pdw,
    const int requested, int* returned,
    cudnnConvolutionBwdFilterAlgoPerf_t* results, void* workspace,
    std::size_t workspace_size) {
  UCUDNN_REAL(cudnnFindConvolutionBackwardFilterAlgorithmEx);
  return BackwardFilterCall(x, dy, conv, dw)
      .AlgorithmsOn(real, handle, px, pdy, pdw, requested, returned, results,
                    workspace, workspace_size);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algorithm, std::size_t* size) {
  UCUDNN_REAL(cudnnGetConvolutionBackwardFilterWorkspaceSize);
  return BackwardFilterCall(x, dy, conv, dw)
      .WorkspaceSize(real, handle, algorithm, size);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
    const void* px, cudnnTensorDescriptor_t dy, const void* pdy,
    cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
    std::size_t workspace_size, const void* beta, cudnnFilterDescriptor_t dw,
    void* pdw) {
  UCUDNN_REAL(cudnnConvolutionBackwardFilter);
  return BackwardFilterCall(x, dy, conv, dw)
      .Run(real, handle, alpha, px, pdy, algorithm, workspace, workspace_size,
           beta, pdw);
}

}  // extern "C"
#pragma GCC visibility pop

#undef UCUDNN_REAL
