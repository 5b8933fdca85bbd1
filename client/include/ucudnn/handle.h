#ifndef UCUDNN_HANDLE_H_
#define UCUDNN_HANDLE_H_

// The drop-in handle: a program that has UcudnnHandle_t where it had
// cudnnHandle_t runs its convolutions in micro-batches. Nothing else changes:
//
//   #include <ucudnn/handle.h>
//
//   UcudnnHandle_t handle;                       // was: cudnnHandle_t
//   cudnnCreate(&handle);
//   cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, conv, y, 1, &n,
//   &perf);
//   // perf.algo, perf.memory as ever; bring a workspace of perf.memory bytes
//   cudnnConvolutionForward(handle, &alpha, x, px, w, pw, conv, perf.algo,
//                           workspace, perf.memory, &beta, y, py);
//
// The handle is the size of a pointer, is copied like one, and converts to
// cudnnHandle_t: pass it to any other function of cuDNN's, store it as void*.
//
// What is planned follows the environment (README.md, "Drop-in handle"):
// UCUDNN_WORKSPACE_LIMIT bounds what each convolution asks for as workspace.
// Without it that is what cuDNN's own choice would need, and 64 MiB at least,
// and what is not faster than cuDNN's own choice is not replaced.
// With UCUDNN_TOTAL_WORKSPACE_SIZE it asks for none, and ucudnn keeps one arena
// for all, divided among those that were asked about and those of the network
// that UCUDNN_NETWORK_FILE names: CSV, which `ucudnn networks convert` makes of
// an ONNX model, or a plan. UCUDNN_BATCH_SIZE_POLICY says which
// micro-batches there may be: powerOfTwo unless set, all, undivided, or
// adaptive, which measures those that plans under the limit need.
//
// A convolution that is asked about or run for the first time on a batch size,
// limit or device is measured, unless that is in UCUDNN_CACHE_DIR or known to
// the coordinator of UCUDNN_COORDINATOR; so ask before training begins. What
// ucudnn does not divide (tensors that are not packed, flipped filters, double
// or integer data, a stream being captured) runs as cuDNN alone would run it.
//
// Results differ from cuDNN's by rounding: alpha and beta are applied exactly,
// and the gradients of the filter are summed in another order. All errors are
// cudnnStatus_t. As with cuDNN, a handle is used by one thread at a time, and
// work is enqueued on its stream, without waiting.
//
// `layer`, where it is given, tells apart two layers of the same shape: each
// then has a segment of its own in the arena. Any number but 0.
//
// Link with ucudnn's handle library; cuDNN 9 is found as the program finds it.

#include <cudnn.h>

#include <cstddef>
#include <cstdint>

// Named and converted as the handle whose place it takes.
// NOLINTBEGIN(google-explicit-constructor,readability-identifier-naming)
class UcudnnHandle_t {
 public:
  UcudnnHandle_t() = default;
  // A handle that cuDNN made may become one of ours at any time.
  UcudnnHandle_t(cudnnHandle_t handle) : handle_(handle) {}
  UcudnnHandle_t(std::nullptr_t) {}
  // What a conversion to void* gave.
  explicit UcudnnHandle_t(void* handle)
      : handle_(static_cast<cudnnHandle_t>(handle)) {}
  operator cudnnHandle_t() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};
// NOLINTEND(google-explicit-constructor,readability-identifier-naming)

cudnnStatus_t cudnnCreate(UcudnnHandle_t* handle);
cudnnStatus_t cudnnDestroy(UcudnnHandle_t handle);
cudnnStatus_t cudnnSetStream(UcudnnHandle_t handle, cudaStream_t stream);

// Of each convolution of this handle from now on (WR).
cudnnStatus_t ucudnnSetWorkspaceLimit(UcudnnHandle_t handle, std::size_t bytes);

// Forward.
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, int requested,
    int* returned, cudnnConvolutionFwdAlgoPerf_t* results,
    std::int64_t layer = 0);
cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, int requested,
    int* returned, cudnnConvolutionFwdAlgoPerf_t* results,
    std::int64_t layer = 0);
cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x, const void* px,
    cudnnFilterDescriptor_t w, const void* pw,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, void* py,
    int requested, int* returned, cudnnConvolutionFwdAlgoPerf_t* results,
    void* workspace, std::size_t workspace_size, std::int64_t layer = 0);
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algorithm, std::size_t* size,
    std::int64_t layer = 0);
cudnnStatus_t cudnnConvolutionForward(
    UcudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
    const void* px, cudnnFilterDescriptor_t w, const void* pw,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algorithm,
    void* workspace, std::size_t workspace_size, const void* beta,
    cudnnTensorDescriptor_t y, void* py, std::int64_t layer = 0);

// Gradients of the data.
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    UcudnnHandle_t handle, cudnnFilterDescriptor_t w,
    cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnTensorDescriptor_t dx, int requested, int* returned,
    cudnnConvolutionBwdDataAlgoPerf_t* results, std::int64_t layer = 0);
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(
    UcudnnHandle_t handle, cudnnFilterDescriptor_t w,
    cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnTensorDescriptor_t dx, int requested, int* returned,
    cudnnConvolutionBwdDataAlgoPerf_t* results, std::int64_t layer = 0);
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    UcudnnHandle_t handle, cudnnFilterDescriptor_t w, const void* pw,
    cudnnTensorDescriptor_t dy, const void* pdy,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t dx, void* pdx,
    int requested, int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results,
    void* workspace, std::size_t workspace_size, std::int64_t layer = 0);
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    UcudnnHandle_t handle, cudnnFilterDescriptor_t w,
    cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnTensorDescriptor_t dx, cudnnConvolutionBwdDataAlgo_t algorithm,
    std::size_t* size, std::int64_t layer = 0);
cudnnStatus_t cudnnConvolutionBackwardData(
    UcudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w,
    const void* pw, cudnnTensorDescriptor_t dy, const void* pdy,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdDataAlgo_t algorithm,
    void* workspace, std::size_t workspace_size, const void* beta,
    cudnnTensorDescriptor_t dx, void* pdx, std::int64_t layer = 0);

// Gradients of the filter.
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x,
    cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnFilterDescriptor_t dw, int requested, int* returned,
    cudnnConvolutionBwdFilterAlgoPerf_t* results, std::int64_t layer = 0);
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x,
    cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnFilterDescriptor_t dw, int requested, int* returned,
    cudnnConvolutionBwdFilterAlgoPerf_t* results, std::int64_t layer = 0);
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x, const void* px,
    cudnnTensorDescriptor_t dy, const void* pdy,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t dw, void* pdw,
    int requested, int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results,
    void* workspace, std::size_t workspace_size, std::int64_t layer = 0);
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    UcudnnHandle_t handle, cudnnTensorDescriptor_t x,
    cudnnTensorDescriptor_t dy, cudnnConvolutionDescriptor_t conv,
    cudnnFilterDescriptor_t dw, cudnnConvolutionBwdFilterAlgo_t algorithm,
    std::size_t* size, std::int64_t layer = 0);
cudnnStatus_t cudnnConvolutionBackwardFilter(
    UcudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
    const void* px, cudnnTensorDescriptor_t dy, const void* pdy,
    cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
    std::size_t workspace_size, const void* beta, cudnnFilterDescriptor_t dw,
    void* pdw, std::int64_t layer = 0);

#endif  // UCUDNN_HANDLE_H_
