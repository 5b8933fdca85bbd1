#ifndef UCUDNN_HANDLE_H_
#define UCUDNN_HANDLE_H_

// The drop-in handle. A program that declares its handle as UcudnnHandle_t
// instead of cudnnHandle_t runs its convolutions in micro-batches; nothing else
// in it changes:
//
//   #include <ucudnn/handle.h>
//
//   UcudnnHandle_t handle;                       // was: cudnnHandle_t
//   cudnnCreate(&handle);
//   cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, conv, y, 1, &n,
//   &perf);
//   // Read perf.algo and perf.memory as before, and bring a workspace of
//   // perf.memory bytes.
//   cudnnConvolutionForward(handle, &alpha, x, px, w, pw, conv, perf.algo,
//                           workspace, perf.memory, &beta, y, py);
//
// The handle has the size of a pointer, is copied like one and converts to
// cudnnHandle_t: pass it to any other cuDNN function, or store it as void*.
//
// The environment configures the planning (docs/guide/drop-in.md). All sizes
// are in bytes.
//
// UCUDNN_WORKSPACE_LIMIT bounds the workspace of each convolution (WR). Without
// it, the bound is what cuDNN's own choice for that call would need, at least
// 64 MiB, and cuDNN's choice is replaced only by a faster division.
//
// UCUDNN_TOTAL_WORKSPACE_SIZE bounds the workspace of all convolutions together
// (WD). Convolutions then ask for no workspace: ucudnn keeps one arena and
// divides it among the convolutions that the program has asked about and those
// of the network in UCUDNN_NETWORK_FILE. That file is CSV (`ucudnn networks
// convert` makes it from an ONNX model) or a plan.
//
// UCUDNN_BATCH_SIZE_POLICY chooses the micro-batch sizes: powerOfTwo (the
// default), all, undivided, or adaptive, which measures only the sizes that
// plans under the limit need.
//
// Source: WR and WD of Oyama et al., "Accelerating Deep Learning Frameworks
// with Micro-batches", CLUSTER 2018, sections III-B and III-C.
//
// Cost: the first question about, or run of, a convolution on a batch size,
// limit or device measures it, unless UCUDNN_CACHE_DIR or the coordinators of
// UCUDNN_COORDINATOR have the measurements. So ask before training begins.
// Later calls neither allocate nor lock to find the plan.
//
// A convolution that comes again with the same operands, workspace, alpha and
// beta is captured as a CUDA graph on a stream of ucudnn's own and launched on
// the handle's stream from then on. UCUDNN_GRAPH_MEMORY bounds the device
// memory of these graphs (64MiB; 0: none).
//
// Convolutions that ucudnn does not divide run as cuDNN alone runs them:
// unpacked tensors, flipped filters, double or integer data. So do convolutions
// that were not planned before their stream is captured; others are captured
// divided. Under UCUDNN_TOTAL_WORKSPACE_SIZE the segments of captured
// convolutions then belong to the program's graph, and the division stays as it
// is: what has no segment by then, or captured one in another graph, runs as
// cuDNN alone runs it.
//
// Results differ from cuDNN's only by rounding: alpha and beta are applied
// exactly, and filter gradients are summed in another order. Every error is a
// cudnnStatus_t; nothing throws. If planning fails, cuDNN's own function runs.
// CUDNN_STATUS_NOT_INITIALIZED: cuDNN or the driver cannot be loaded.
//
// Thread safety is cuDNN's: one thread at a time uses a handle; different
// handles may be used at once. Calls enqueue on the handle's stream and, once
// planned, do not wait for the device.
//
// `layer`, if not 0, distinguishes layers of equal shape: each then has its own
// segment of the arena. Any other number will do; programs may ignore it.
//
// Link with ucudnn's handle library (libucudnn_handle.so); cuDNN 9 and the
// driver are looked up at run time.

#include <cudnn.h>

#include <cstddef>
#include <cstdint>

// Named like the handle that it replaces, and converts implicitly like it.
// NOLINTBEGIN(google-explicit-constructor,readability-identifier-naming)
class UcudnnHandle_t {
 public:
  UcudnnHandle_t() = default;
  // From a handle that cuDNN made; ucudnn plans its convolutions too.
  UcudnnHandle_t(cudnnHandle_t handle) : handle_(handle) {}
  UcudnnHandle_t(std::nullptr_t) {}
  // From the result of a conversion to void*.
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

// Sets the workspace limit of this handle's convolutions from now on, in bytes
// (WR); replaces UCUDNN_WORKSPACE_LIMIT. Convolutions are planned again under
// the new limit when next asked about or run. CUDNN_STATUS_BAD_PARAM above
// 2^62. No effect where ucudnn is disabled.
cudnnStatus_t ucudnnSetWorkspaceLimit(UcudnnHandle_t handle, std::size_t bytes);

// Forward: y = alpha conv(x, w) + beta y. Parameters, shapes and statuses below
// are those of the cuDNN functions of the same names. The Get and Find
// functions list ucudnn's division first, if there is one: `memory` is the
// workspace to bring in bytes, `time` the time of all micro-batches in
// milliseconds, `algo` the algorithm to pass on.
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

// Data gradients: dx = alpha conv^T(w, dy) + beta dx.
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

// Filter gradients: dw = alpha grad(x, dy) + beta dw, accumulated over the
// micro-batches.
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
