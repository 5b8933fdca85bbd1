// libcudnn.so.9, or with FAKE_CUDNN=8 libcudnn.so.8: the functions that
// device/cudnn loads. The graph API supports nothing.

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "tests/support/fake_gpu/fake_cudnn_types.h"
#include "tests/support/fake_gpu/fake_gpu.h"
#include "tests/support/fake_gpu/fake_work.h"

namespace {

using Tensor = cudnnTensorDescriptor_t;
using Filter = cudnnFilterDescriptor_t;
using Convolution = cudnnConvolutionDescriptor_t;

constexpr std::size_t kMaxRuns = 1 << 16;
std::array<FakeGpuRun, kMaxRuns> runs;
std::atomic<int> run_count = 0;

template <class T, std::size_t n>
void Copy(const int* from, int count, std::array<T, n>* to) {
  std::copy_n(from, std::min<int>(count, n), to->begin());
}

bool IsSupported(Tensor x) {
  return x->type == CUDNN_DATA_FLOAT &&
         x->strides[static_cast<std::size_t>(x->rank - 1)] == 1;
}

// Algorithms 0 and 1 only.
cudnnStatus_t Workspace(Tensor x, int algorithm, std::size_t* size) {
  if (x == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if ((algorithm != 0 && algorithm != 1) || !IsSupported(x)) {
    return CUDNN_STATUS_NOT_SUPPORTED;
  }
  const char* const set = std::getenv("FAKE_GPU_WORKSPACE");
  const std::size_t an_image =
      set == nullptr ? kFakeWorkspace : std::strtoull(set, nullptr, 10);
  *size = algorithm == 0 ? 0 : an_image * static_cast<std::size_t>(x->dims[0]);
  return kOk;
}

// The algorithms that fit a workspace, `first` before the other.
template <class Perf>
cudnnStatus_t Algorithms(Tensor x, int first, std::size_t most, int requested,
                         int* returned, Perf* results) {
  if (x == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if (!IsSupported(x)) return CUDNN_STATUS_NOT_SUPPORTED;
  *returned = 0;
  for (const int algorithm : {first, 1 - first}) {
    std::size_t size = 0;
    (void)Workspace(x, algorithm, &size);
    if (size > most || *returned == requested) continue;
    Perf& perf = results[(*returned)++];
    perf = {};
    perf.algo = static_cast<decltype(Perf::algo)>(algorithm);
    perf.time = static_cast<float>(2 - algorithm);
    perf.memory = size;
    perf.mathType = CUDNN_FMA_MATH;
  }
  return kOk;
}

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

template <class Perf>
cudnnStatus_t Suggested(Tensor x, int requested, int* returned, Perf* results) {
  const char* const set = std::getenv("FAKE_GPU_SUGGESTION");
  return Algorithms(x, set != nullptr && *set == '0' ? 0 : 1, kAll, requested,
                    returned, results);
}
template <class Perf>
cudnnStatus_t Found(Tensor x, std::size_t most, int requested, int* returned,
                    Perf* results) {
  return Algorithms(x, 1, most, requested, returned, results);
}

// A convolution with everything that it needs when it runs.
struct Call {
  char operation = 'f';
  cudnnTensorStruct x;
  cudnnFilterStruct w;
  cudnnTensorStruct y;
  cudnnConvolutionStruct conv;
  const float* px = nullptr;
  const float* pw = nullptr;
  const float* py = nullptr;
  float* out = nullptr;
  float alpha = 1;
  float beta = 0;
  int algorithm = 0;
  void* workspace = nullptr;
  std::size_t workspace_size = 0;
  std::size_t needed = 0;
};

// One of depth, height and width; images have a depth of 1.
struct Axis {
  int x = 1;
  int w = 1;
  int y = 1;
  int pad = 0;
  int stride = 1;
  int dilation = 1;

  // The element of x that tap `tap` reads for element `o` of y.
  int In(int o, int tap) const { return o * stride - pad + tap * dilation; }
  bool Has(int in) const { return in >= 0 && in < x; }
};
Axis AxisOf(const Call& call, int axis) {
  const int place = axis - (5 - call.x.rank);
  if (place < 0) return {};
  const auto i = static_cast<std::size_t>(place);
  return {call.x.dims[i + 2], call.w.dims[i + 2],  call.y.dims[i + 2],
          call.conv.pad[i],   call.conv.stride[i], call.conv.dilation[i]};
}

// Adds what image n, filter k and its channel c have to do with each other: one
// multiplication for each tap and pixel of the output.
void AddPlane(const Call& call, int n, int k, int c) {
  const cudnnFilterStruct& w = call.w;
  const Axis depth = AxisOf(call, 0);
  const Axis height = AxisOf(call, 1);
  const Axis width = AxisOf(call, 2);
  const int channel = k / (w.dims[0] / call.conv.groups) * w.dims[1] + c;
  const int plane_x = n * call.x.strides[0] + channel * call.x.strides[1];
  const int plane_y = n * call.y.strides[0] + k * call.y.strides[1];
  const int taps = depth.w * height.w * width.w;
  for (int tap = 0; tap < taps; ++tap) {
    const int at_w = (k * w.dims[1] + c) * taps + tap;
    const int t = tap / width.w / height.w;
    const int r = tap / width.w % height.w;
    const int s = tap % width.w;
    for (int row = 0; row < depth.y * height.y; ++row) {
      const int iz = depth.In(row / height.y, t);
      const int iy = height.In(row % height.y, r);
      if (!depth.Has(iz) || !height.Has(iy)) continue;
      const int row_x = plane_x + (iz * height.x + iy) * width.x;
      const int row_y = plane_y + row * width.y;
      for (int ox = 0; ox < width.y; ++ox) {
        const int ix = width.In(ox, s);
        if (!width.Has(ix)) continue;
        const int at_x = row_x + ix;
        const int at_y = row_y + ox;
        if (call.operation == 'f') {
          call.out[at_y] += call.alpha * call.px[at_x] * call.pw[at_w];
        }
        if (call.operation == 'd') {
          call.out[at_x] += call.alpha * call.py[at_y] * call.pw[at_w];
        }
        if (call.operation == 'w') {
          call.out[at_w] += call.alpha * call.px[at_x] * call.py[at_y];
        }
      }
    }
  }
}

// out = alpha * op + beta * out, image by image.
void Compute(const Call& call) {
  constexpr std::size_t kWritten = 1 << 16;
  if (call.needed > 0) {
    std::memset(call.workspace, 0xff, std::min(call.needed, kWritten));
  }
  const char operation = call.operation;
  const cudnnTensorStruct& x = call.x;
  const cudnnFilterStruct& w = call.w;
  const cudnnTensorStruct& y = call.y;
  const int images = x.dims[0];
  const int number = run_count.fetch_add(1);
  if (number < static_cast<int>(kMaxRuns)) {
    runs[static_cast<std::size_t>(number)] = {
        operation, images, call.algorithm, call.workspace, call.workspace_size};
  }
  FakeGpuSpend(5'000 + images * (call.algorithm == 0 ? 100'000 : 30'000));

  float* const out = call.out;
  const int out_elements = operation == 'w'
                               ? w.dims[0] * w.dims[1] * AxisOf(call, 0).w *
                                     AxisOf(call, 1).w * AxisOf(call, 2).w
                               : images * (operation == 'f' ? y : x).strides[0];
  for (int i = 0; i < out_elements; ++i) {
    out[i] = call.beta == 0 ? 0 : call.beta * out[i];
  }
  for (int n = 0; n < images; ++n) {
    for (int k = 0; k < w.dims[0]; ++k) {
      for (int c = 0; c < w.dims[1]; ++c) AddPlane(call, n, k, c);
    }
  }
  const char* const inexact = std::getenv("FAKE_GPU_INEXACT");
  if (inexact == nullptr || call.algorithm != *inexact - '0') return;
  for (int i = 0; i < out_elements; ++i) out[i] *= 1.01F;
}

// Runs the convolution, or records it if the handle's stream is captured.
cudnnStatus_t Run(cudnnHandle_t handle, char operation, Tensor x,
                  const float* px, Filter w, const float* pw, Tensor y,
                  const float* py, Convolution conv, int algorithm,
                  void* workspace, std::size_t workspace_size,
                  const void* alpha, const void* beta, float* out) {
  std::size_t needed = 0;
  if (x == nullptr || w == nullptr || y == nullptr || conv == nullptr) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  if (const auto status = Workspace(x, algorithm, &needed); status != kOk) {
    return status;
  }
  if (workspace_size < needed || (needed > 0 && workspace == nullptr)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const Call call = {operation,
                     *x,
                     *w,
                     *y,
                     *conv,
                     px,
                     pw,
                     py,
                     out,
                     *static_cast<const float*>(alpha),
                     *static_cast<const float*>(beta),
                     algorithm,
                     workspace,
                     workspace_size,
                     needed};
  if (FakeGpuIsCapturing(handle->stream)) {
    FakeGpuRecord(handle->stream, [call] { Compute(call); });
  } else {
    Compute(call);
  }
  return kOk;
}

template <class T>
cudnnStatus_t Make(T** made) {
  *made = new T;
  return kOk;
}
template <class T>
cudnnStatus_t Drop(T* made) {
  delete made;
  return kOk;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int FakeGpuRuns() { return run_count; }
FakeGpuRun FakeGpuRunAt(int number) {
  return runs[static_cast<std::size_t>(number)];
}

std::size_t cudnnGetVersion() {
  return FAKE_CUDNN == 8 ? 8906 : CUDNN_MAJOR * 10000;
}
const char* cudnnGetErrorString(cudnnStatus_t) { return "of the fake cuDNN"; }
#if FAKE_CUDNN > 8
void cudnnGetLastErrorString(char* text, std::size_t size) {
  if (size > 0) *text = '\0';
}
#endif
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) { return Make(handle); }
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) { return Drop(handle); }
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (FakeGpuIsCapturing(handle->stream)) return CUDNN_STATUS_BAD_PARAM;
  handle->stream = stream;
  return kOk;
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  *stream = handle->stream;
  return kOk;
}

cudnnStatus_t cudnnCreateTensorDescriptor(Tensor* d) { return Make(d); }
cudnnStatus_t cudnnDestroyTensorDescriptor(Tensor d) { return Drop(d); }
cudnnStatus_t cudnnSetTensorNdDescriptor(Tensor d, cudnnDataType_t type,
                                         int rank, const int* dims,
                                         const int* strides) {
  d->type = type;
  d->rank = rank;
  Copy(dims, rank, &d->dims);
  Copy(strides, rank, &d->strides);
  return kOk;
}
cudnnStatus_t cudnnGetTensorNdDescriptor(const Tensor d, int wanted,
                                         cudnnDataType_t* type, int* rank,
                                         int* dims, int* strides) {
  if (d == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *type = d->type;
  *rank = d->rank;
  std::copy_n(d->dims.begin(), std::min(wanted, d->rank), dims);
  std::copy_n(d->strides.begin(), std::min(wanted, d->rank), strides);
  return kOk;
}
cudnnStatus_t cudnnCreateFilterDescriptor(Filter* d) { return Make(d); }
cudnnStatus_t cudnnDestroyFilterDescriptor(Filter d) { return Drop(d); }
cudnnStatus_t cudnnSetFilterNdDescriptor(Filter d, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int rank,
                                         const int* dims) {
  d->type = type;
  d->format = format;
  d->rank = rank;
  Copy(dims, rank, &d->dims);
  return kOk;
}
cudnnStatus_t cudnnGetFilterNdDescriptor(const Filter d, int wanted,
                                         cudnnDataType_t* type,
                                         cudnnTensorFormat_t* format, int* rank,
                                         int* dims) {
  if (d == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *type = d->type;
  *format = d->format;
  *rank = d->rank;
  std::copy_n(d->dims.begin(), std::min(wanted, d->rank), dims);
  return kOk;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(Convolution* d) {
  return Make(d);
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(Convolution d) {
  return Drop(d);
}
cudnnStatus_t cudnnSetConvolutionNdDescriptor(Convolution d, int rank,
                                              const int* pad, const int* stride,
                                              const int* dilation,
                                              cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  d->rank = rank;
  Copy(pad, rank, &d->pad);
  Copy(stride, rank, &d->stride);
  Copy(dilation, rank, &d->dilation);
  d->mode = mode;
  d->compute = compute;
  return kOk;
}
cudnnStatus_t cudnnGetConvolutionNdDescriptor(const Convolution d, int wanted,
                                              int* rank, int* pad, int* stride,
                                              int* dilation,
                                              cudnnConvolutionMode_t* mode,
                                              cudnnDataType_t* compute) {
  if (d == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *rank = d->rank;
  std::copy_n(d->pad.begin(), std::min(wanted, d->rank), pad);
  std::copy_n(d->stride.begin(), std::min(wanted, d->rank), stride);
  std::copy_n(d->dilation.begin(), std::min(wanted, d->rank), dilation);
  *mode = d->mode;
  *compute = d->compute;
  return kOk;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(Convolution d, int groups) {
  d->groups = groups;
  return kOk;
}
cudnnStatus_t cudnnGetConvolutionGroupCount(const Convolution d, int* groups) {
  *groups = d->groups;
  return kOk;
}
cudnnStatus_t cudnnSetConvolutionMathType(Convolution d, cudnnMathType_t math) {
  d->math = math;
  return kOk;
}
cudnnStatus_t cudnnGetConvolutionMathType(const Convolution d,
                                          cudnnMathType_t* math) {
  *math = d->math;
  return kOk;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t, const Tensor x, const Filter, const Convolution,
    const Tensor, cudnnConvolutionFwdAlgo_t algorithm, std::size_t* size) {
  return Workspace(x, algorithm, size);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t, const Filter, const Tensor, const Convolution,
    const Tensor dx, cudnnConvolutionBwdDataAlgo_t algorithm,
    std::size_t* size) {
  return Workspace(dx, algorithm, size);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t, const Tensor x, const Tensor, const Convolution,
    const Filter, cudnnConvolutionBwdFilterAlgo_t algorithm,
    std::size_t* size) {
  return Workspace(x, algorithm, size);
}

cudnnStatus_t cudnnConvolutionForward(
    cudnnHandle_t handle, const void* alpha, const Tensor x, const void* px,
    const Filter w, const void* pw, const Convolution conv,
    cudnnConvolutionFwdAlgo_t algorithm, void* workspace, std::size_t size,
    const void* beta, const Tensor y, void* py) {
  return Run(handle, 'f', x, Floats(px), w, Floats(pw), y, nullptr, conv,
             algorithm, workspace, size, alpha, beta, static_cast<float*>(py));
}
cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void* alpha, const Filter w, const void* pw,
    const Tensor dy, const void* pdy, const Convolution conv,
    cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace, std::size_t size,
    const void* beta, const Tensor dx, void* pdx) {
  return Run(handle, 'd', dx, nullptr, w, Floats(pw), dy, Floats(pdy), conv,
             algorithm, workspace, size, alpha, beta, static_cast<float*>(pdx));
}
cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void* alpha, const Tensor x, const void* px,
    const Tensor dy, const void* pdy, const Convolution conv,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
    std::size_t size, const void* beta, const Filter dw, void* pdw) {
  return Run(handle, 'w', x, Floats(px), dw, nullptr, dy, Floats(pdy), conv,
             algorithm, workspace, size, alpha, beta, static_cast<float*>(pdw));
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t, const Tensor x, const Filter, const Convolution,
    const Tensor, const int requested, int* returned,
    cudnnConvolutionFwdAlgoPerf_t* results) {
  return Suggested(x, requested, returned, results);
}
cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(
    cudnnHandle_t, const Tensor x, const Filter, const Convolution,
    const Tensor, const int requested, int* returned,
    cudnnConvolutionFwdAlgoPerf_t* results) {
  return Found(x, kAll, requested, returned, results);
}
cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t, const Tensor x, const void*, const Filter, const void*,
    const Convolution, const Tensor, void*, const int requested, int* returned,
    cudnnConvolutionFwdAlgoPerf_t* results, void*, std::size_t size) {
  return Found(x, size, requested, returned, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, const Filter, const Tensor, const Convolution,
    const Tensor dx, const int requested, int* returned,
    cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return Suggested(dx, requested, returned, results);
}
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(
    cudnnHandle_t, const Filter, const Tensor, const Convolution,
    const Tensor dx, const int requested, int* returned,
    cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return Found(dx, kAll, requested, returned, results);
}
cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t, const Filter, const void*, const Tensor, const void*,
    const Convolution, const Tensor dx, void*, const int requested,
    int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results, void*,
    std::size_t size) {
  return Found(dx, size, requested, returned, results);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, const Tensor x, const Tensor, const Convolution,
    const Filter, const int requested, int* returned,
    cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return Suggested(x, requested, returned, results);
}
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(
    cudnnHandle_t, const Tensor x, const Tensor, const Convolution,
    const Filter, const int requested, int* returned,
    cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return Found(x, kAll, requested, returned, results);
}
cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t, const Tensor x, const void*, const Tensor, const void*,
    const Convolution, const Filter, void*, const int requested, int* returned,
    cudnnConvolutionBwdFilterAlgoPerf_t* results, void*, std::size_t size) {
  return Found(x, size, requested, returned, results);
}

cudnnStatus_t cudnnScaleTensor(cudnnHandle_t handle, const Tensor y, void* data,
                               const void* alpha) {
  if (!IsSupported(y)) return CUDNN_STATUS_NOT_SUPPORTED;
  const std::int64_t count = std::int64_t{y->dims[0]} * y->strides[0];
  const float factor = *static_cast<const float*>(alpha);
  return Do(handle, count, [=] {
    std::for_each_n(static_cast<float*>(data), count,
                    [&](float& value) { value *= factor; });
  });
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t,
                                           cudnnBackendDescriptor_t*) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t,
                                       cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t,
                                       std::int64_t, const void*) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t,
                                       cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t,
                                       std::int64_t, std::int64_t*, void*) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t,
                                  cudnnBackendDescriptor_t) {
  return CUDNN_STATUS_NOT_SUPPORTED;
}

}  // extern "C"
#pragma GCC visibility pop
