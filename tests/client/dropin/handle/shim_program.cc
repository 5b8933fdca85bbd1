// A program built without ucudnn, or with the handle instead of cuDNN's: asks
// cuDNN for an algorithm, runs a convolution, and prints the algorithm, what
// ran, and the sum of the result. With an argument, again with another handle.

#include <cudnn.h>

#include <cstdio>
#include <vector>

#include "tests/support/fake_gpu/fake_gpu.h"

#ifdef UCUDNN_HANDLE
#include "ucudnn/handle.h"
using Handle = UcudnnHandle_t;
#else
using Handle = cudnnHandle_t;
#endif

namespace {

void RunOnce() {
  constexpr int kImages = 32;
  const int in[] = {kImages, 3, 6, 6};
  const int in_strides[] = {108, 36, 6, 1};
  const int out[] = {kImages, 4, 6, 6};
  const int out_strides[] = {144, 36, 6, 1};
  const int filter[] = {4, 3, 3, 3};
  const int one[] = {1, 1};
  Handle handle = nullptr;
  cudnnTensorDescriptor_t x = nullptr;
  cudnnTensorDescriptor_t y = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;
  cudnnCreate(&handle);
  cudnnCreateTensorDescriptor(&x);
  cudnnCreateTensorDescriptor(&y);
  cudnnCreateFilterDescriptor(&w);
  cudnnCreateConvolutionDescriptor(&conv);
  cudnnSetTensorNdDescriptor(x, CUDNN_DATA_FLOAT, 4, in, in_strides);
  cudnnSetTensorNdDescriptor(y, CUDNN_DATA_FLOAT, 4, out, out_strides);
  cudnnSetFilterNdDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, filter);
  cudnnSetConvolutionNdDescriptor(conv, 2, one, one, one,
                                  CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  cudnnSetConvolutionMathType(conv, CUDNN_FMA_MATH);

  int count = 0;
  cudnnConvolutionFwdAlgoPerf_t perf = {};
  cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, conv, y, 1, &count,
                                         &perf);
  std::vector<float> px(kImages * 108, 0.5F);
  std::vector<float> pw(108, 2);
  std::vector<float> py(kImages * 144);
  std::vector<char> workspace(perf.memory);
  const float alpha = 1;
  const float beta = 0;
  const int before = FakeGpuRuns();
  const cudnnStatus_t status = cudnnConvolutionForward(
      handle, &alpha, x, px.data(), w, pw.data(), conv, perf.algo,
      workspace.data(), workspace.size(), &beta, y, py.data());
  double sum = 0;
  for (const float value : py) sum += double{value};
  std::printf("workspace %zu status %d runs %d sum %.0f\n", perf.memory,
              static_cast<int>(status), FakeGpuRuns() - before, sum);
  cudnnDestroyTensorDescriptor(x);
  cudnnDestroyTensorDescriptor(y);
  cudnnDestroyFilterDescriptor(w);
  cudnnDestroyConvolutionDescriptor(conv);
  cudnnDestroy(handle);
}

}  // namespace

int main(int argc, char** /*argv*/) {
  for (int run = 0; run < argc; ++run) RunOnce();
  return 0;
}
