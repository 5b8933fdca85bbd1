// The overloads of ucudnn/handle.h. Each is an entry point (entry.h) whose
// `plain` is cuDNN's function.

#include "client/dropin/handle/handle_state.h"
#include "client/dropin/handle/operations.h"
#include "device/cudnn/driver/libraries.h"
// Included after the headers that take the addresses of the cuDNN functions
// that it overloads.
#include "ucudnn/handle.h"

using ucudnn::Bytes;
using ucudnn::cudnn::BackwardDataCall;
using ucudnn::cudnn::BackwardFilterCall;
using ucudnn::cudnn::ForwardCall;
using ucudnn::cudnn::StatusHere;

namespace {

// cuDNN's functions; null if cuDNN or the driver cannot be loaded.
const ucudnn::cudnn::CudnnApi* Cudnn() {
  static const ucudnn::cudnn::CudnnApi* const api =
      []() -> const ucudnn::cudnn::CudnnApi* {
    const auto libraries = ucudnn::cudnn::LoadedLibraries();
    return libraries ? &(*libraries)->cudnn : nullptr;
  }();
  return api;
}

}  // namespace

#define UCUDNN_REAL(member, function)                          \
  if (Cudnn() == nullptr) return CUDNN_STATUS_NOT_INITIALIZED; \
  const auto real = Cudnn()->member

cudnnStatus_t cudnnCreate(UcudnnHandle_t* handle) {
  UCUDNN_REAL(Create, cudnnCreate);
  if (handle == nullptr) return StatusHere(CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  cudnnHandle_t made = nullptr;
  const cudnnStatus_t status = real(&made);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  *handle = made;
  // The handle's context is current here.
  (void)ucudnn::cudnn::StateOf(made);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(UcudnnHandle_t handle) {
  UCUDNN_REAL(Destroy, cudnnDestroy);
  ucudnn::cudnn::ForgetHandle(handle);
  return real(handle);
}

cudnnStatus_t cudnnSetStream(UcudnnHandle_t handle, cudaStream_t stream) {
  UCUDNN_REAL(SetStream, cudnnSetStream);
  return real(handle, stream);
}

cudnnStatus_t ucudnnSetWorkspaceLimit(UcudnnHandle_t handle,
                                      std::size_t bytes) {
  if (bytes > std::size_t{ucudnn::kMaxCount})
    return StatusHere(CUDNN_STATUS_BAD_PARAM);
  if (auto* const state = ucudnn::cudnn::StateOf(handle)) {
    state->set_workspace_limit(Bytes(static_cast<std::int64_t>(bytes)));
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, int requested,
    int* returned, cudnnConvolutionFwdAlgoPerf_t* results, std::int64_t layer) {
  UCUDNN_REAL(GetForwardAlgorithm, cudnnGetConvolutionForwardAlgorithm_v7);
  return ForwardCall(x, w, conv, y, layer)
      .Algorithms(real, handle, requested, returned, results);
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, int requested,
    int* returned, cudnnConvolutionFwdAlgoPerf_t* results, std::int64_t layer) {
  UCUDNN_REAL(FindForwardAlgorithm, cudnnFindConvolutionForwardAlgorithm);
  return ForwardCall(x, w, conv, y, layer)
      .Algorithms(real, handle, requested, returned, results);
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x, const void* px,
    cudnnFilterDescriptor_t w, const void* pw,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, void* py,
    int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* results,
    void* workspace, std::size_t workspace_size, std::int64_t layer) {
  UCUDNN_REAL(FindForwardAlgorithmEx, cudnnFindConvolutionForwardAlgorithmEx);
  return ForwardCall(x, w, conv, y, layer)
      .AlgorithmsOn(real, handle, px, pw, py, requested, returned, results,
                    workspace, workspace_size);
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algorithm, std::size_t* size,
    std::int64_t layer) {
  UCUDNN_REAL(GetForwardWorkspaceSize, cudnnGetConvolutionForwardWorkspaceSize);
  return ForwardCall(x, w, conv, y, layer)
      .WorkspaceSize(real, handle, algorithm, size);
}

cudnnStatus_t cudnnConvolutionForward(
    UcudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
    const void* px, cudnnFilterDescriptor_t w, const void* pw,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algorithm,
    void* workspace, std::size_t workspace_size, const void* beta,
    cudnnTensorDescriptor_t y, void* py, std::int64_t layer) {
  UCUDNN_REAL(ConvolutionForward, cudnnConvolutionForward);
  return ForwardCall(x, w, conv, y, layer)
      .Run(real, handle, alpha, px, pw, algorithm, workspace, workspace_size,
           beta, py);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    UcudnnHandle_t handle, cudnnFilterDescriptor_t w,
    cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnTensorDescriptor_t dx, int requested, int* returned,
    cudnnConvolutionBwdDataAlgoPerf_t* results, std::int64_t layer) {
  UCUDNN_REAL(GetBackwardDataAlgorithm,
              cudnnGetConvolutionBackwardDataAlgorithm_v7);
  return BackwardDataCall(w, dy, conv, dx, layer)
      .Algorithms(real, handle, requested, returned, results);
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(
    UcudnnHandle_t handle, cudnnFilterDescriptor_t w,
    cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnTensorDescriptor_t dx, int requested, int* returned,
    cudnnConvolutionBwdDataAlgoPerf_t* results, std::int64_t layer) {
  UCUDNN_REAL(FindBackwardDataAlgorithm,
              cudnnFindConvolutionBackwardDataAlgorithm);
  return BackwardDataCall(w, dy, conv, dx, layer)
      .Algorithms(real, handle, requested, returned, results);
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    UcudnnHandle_t handle, cudnnFilterDescriptor_t w, const void* pw,
    cudnnTensorDescriptor_t dy, const void* pdy,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx, void* pdx,
    int requested, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results,
    void* workspace, std::size_t workspace_size, std::int64_t layer) {
  UCUDNN_REAL(FindBackwardDataAlgorithmEx,
              cudnnFindConvolutionBackwardDataAlgorithmEx);
  return BackwardDataCall(w, dy, conv, dx, layer)
      .AlgorithmsOn(real, handle, pw, pdy, pdx, requested, returned, results,
                    workspace, workspace_size);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    UcudnnHandle_t handle, cudnnFilterDescriptor_t w,
    cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnTensorDescriptor_t dx, cudnnConvolutionBwdDataAlgo_t algorithm,
    std::size_t* size, std::int64_t layer) {
  UCUDNN_REAL(GetBackwardDataWorkspaceSize,
              cudnnGetConvolutionBackwardDataWorkspaceSize);
  return BackwardDataCall(w, dy, conv, dx, layer)
      .WorkspaceSize(real, handle, algorithm, size);
}

cudnnStatus_t cudnnConvolutionBackwardData(
    UcudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w,
    const void* pw, cudnnTensorDescriptor_t dy, const void* pdy,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdDataAlgo_t algorithm,
    void* workspace, std::size_t workspace_size, const void* beta,
    cudnnTensorDescriptor_t dx, void* pdx, std::int64_t layer) {
  UCUDNN_REAL(ConvolutionBackwardData, cudnnConvolutionBackwardData);
  return BackwardDataCall(w, dy, conv, dx, layer)
      .Run(real, handle, alpha, pw, pdy, algorithm, workspace, workspace_size,
           beta, pdx);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x,
    cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnFilterDescriptor_t dw, int requested, int* returned,
    cudnnConvolutionBwdFilterAlgoPerf_t* results, std::int64_t layer) {
  UCUDNN_REAL(GetBackwardFilterAlgorithm,
              cudnnGetConvolutionBackwardFilterAlgorithm_v7);
  return BackwardFilterCall(x, dy, conv, dw, layer)
      .Algorithms(real, handle, requested, returned, results);
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x,
    cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnFilterDescriptor_t dw, int requested, int* returned,
    cudnnConvolutionBwdFilterAlgoPerf_t* results, std::int64_t layer) {
  UCUDNN_REAL(FindBackwardFilterAlgorithm,
              cudnnFindConvolutionBackwardFilterAlgorithm);
  return BackwardFilterCall(x, dy, conv, dw, layer)
      .Algorithms(real, handle, requested, returned, results);
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x, const void* px,
    cudnnTensorDescriptor_t dy, const void* pdy,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw, void* pdw,
    int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results,
    void* workspace, std::size_t workspace_size, std::int64_t layer) {
  UCUDNN_REAL(FindBackwardFilterAlgorithmEx,
              cudnnFindConvolutionBackwardFilterAlgorithmEx);
  return BackwardFilterCall(x, dy, conv, dw, layer)
      .AlgorithmsOn(real, handle, px, pdy, pdw, requested, returned, results,
                    workspace, workspace_size);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x,
    cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnFilterDescriptor_t dw, cudnnConvolutionBwdFilterAlgo_t algorithm,
    std::size_t* size, std::int64_t layer) {
  UCUDNN_REAL(GetBackwardFilterWorkspaceSize,
              cudnnGetConvolutionBackwardFilterWorkspaceSize);
  return BackwardFilterCall(x, dy, conv, dw, layer)
      .WorkspaceSize(real, handle, algorithm, size);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    UcudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
    const void* px, cudnnTensorDescriptor_t dy, const void* pdy,
    cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
    std::size_t workspace_size, const void* beta, cudnnFilterDescriptor_t dw,
    void* pdw, std::int64_t layer) {
  UCUDNN_REAL(ConvolutionBackwardFilter, cudnnConvolutionBackwardFilter);
  return BackwardFilterCall(x, dy, conv, dw, layer)
      .Run(real, handle, alpha, px, pdy, algorithm, workspace, workspace_size,
           beta, pdw);
}

#undef UCUDNN_REAL
