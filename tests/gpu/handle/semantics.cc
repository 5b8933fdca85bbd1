// What programs rely on, whatever runs their convolutions: the first algorithm
// listed is valid, new limits and batch sizes take effect, streams can be
// captured, bad arguments are refused.

#include <algorithm>
#include <array>
#include <cmath>

#include "gpu.h"

namespace {

int failures = 0;

void Expect(bool holds, const char* what) {
  std::printf("  %-60s %s\n", what, holds ? "ok" : "FAILED");
  if (!holds) ++failures;
}

Problem Shape(int batch) {
  Problem p;
  p.n = batch;
  p.c = 64;
  p.k = 96;
  p.in = {27, 27};
  p.filter = {5, 5};
  p.pad = {2, 2};
  p.stride = p.dilation = {1, 1};
  return p;
}

struct Data {
  Memory x, w, y, workspace;
  explicit Data(const Descriptors& d) {
    Fill(x.Get(d.x_elements * 4), d.x_elements);
    Fill(w.Get(d.w_elements * 4), d.w_elements);
    y.Get(d.y_elements * 4);
  }
  static void Fill(void* data, std::size_t count) {
    std::vector<float> values(count);
    unsigned seed = 7;
    for (float& v : values) {
      seed = seed * 1664525U + 1013904223U;
      v = static_cast<float>(seed >> 8) * 0x1p-23F - 1.0F;
    }
    CHECK(cudaMemcpy(data, values.data(), count * 4, cudaMemcpyHostToDevice));
  }
};

std::vector<float> Output(Data& data, const Descriptors& d) {
  std::vector<float> values(d.y_elements);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(values.data(), data.y.Get(0), values.size() * 4,
                   cudaMemcpyDeviceToHost));
  return values;
}

double Difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(double{a[i]} - double{b[i]}));
    largest = std::max(largest, std::abs(double{a[i]}));
  }
  return difference / largest;
}

cudnnStatus_t Forward(Handle handle, const Descriptors& d, Data& data,
                      const Choice& choice) {
  void* const scratch =
      choice.workspace > 0 ? data.workspace.Get(choice.workspace) : nullptr;
  return Convolve(handle, kForward, d, choice, 1.0F, 0.0F, data.x.Get(0),
                  data.w.Get(0), data.y.Get(0), scratch);
}

}  // namespace

int CheckSemantics() {
  Handle handle = nullptr;
  CHECK(cudnnCreate(&handle));
  const Descriptors d(Shape(64));
  Data data(d);
  constexpr std::size_t kMuch = std::size_t{1} << 30;

  // The simplest algorithm, for comparison.
  const Choice direct = Choose(handle, kForward, d, kMuch, true);
  Expect(Forward(handle, d, data, direct) == CUDNN_STATUS_SUCCESS,
         "an algorithm of the program's own choice runs");
  const auto expected = Output(data, d);

  std::array<cudnnConvolutionFwdAlgoPerf_t, 8> results = {};
  int count = 0;
  CHECK(cudnnGetConvolutionForwardAlgorithm_v7(handle, d.x, d.w, d.conv, d.y, 1,
                                               &count, results.data()));
  Expect(count == 1 && results[0].status == CUDNN_STATUS_SUCCESS,
         "asked for one algorithm, one is given");
  CHECK(cudnnGetConvolutionForwardAlgorithm_v7(handle, d.x, d.w, d.conv, d.y, 8,
                                               &count, results.data()));
  Expect(count > 1 && count <= 8, "asked for eight, several are given");
  std::size_t size = 0;
  CHECK(cudnnGetConvolutionForwardWorkspaceSize(handle, d.x, d.w, d.conv, d.y,
                                                results[0].algo, &size));
  Expect(size == results[0].memory, "its workspace is the same by both calls");
  const Choice offered{results[0].algo, size, -1};
  Expect(Forward(handle, d, data, offered) == CUDNN_STATUS_SUCCESS,
         "what is offered first runs");
  Expect(Difference(expected, Output(data, d)) < 1e-5, "and computes the same");
  const auto alone = static_cast<cudnnHandle_t>(handle);
  const float one = 1;
  const float zero = 0;
  Expect(cudnnConvolutionForward(
             alone, &one, d.x, data.x.Get(0), d.w, data.w.Get(0), d.conv,
             results[0].algo, size > 0 ? data.workspace.Get(size) : nullptr,
             size, &zero, d.y, data.y.Get(0)) == CUDNN_STATUS_SUCCESS,
         "cuDNN itself accepts it with that workspace");
  Expect(Forward(handle, d, data, {offered.algorithm, 0, -1}) ==
                 CUDNN_STATUS_SUCCESS ||
             size > 0,
         "with less workspace it runs or is refused");

  CHECK(cudnnFindConvolutionForwardAlgorithm(handle, d.x, d.w, d.conv, d.y, 8,
                                             &count, results.data()));
  Expect(count > 1 && results[0].status == CUDNN_STATUS_SUCCESS &&
             results[0].time > 0,
         "find gives times");
  CHECK(cudnnFindConvolutionForwardAlgorithmEx(
      handle, d.x, data.x.Get(0), d.w, data.w.Get(0), d.conv, d.y,
      data.y.Get(0), 1, &count, results.data(),
      data.workspace.Get(std::size_t{4} << 20), std::size_t{4} << 20));
  Expect(count == 1 && results[0].memory <= std::size_t{4} << 20,
         "find-ex keeps to the workspace it is given");

  // The same descriptors, changed to another batch.
  const Descriptors smaller(Shape(24));
  const Choice other = Choose(handle, kForward, smaller, kMuch, false);
  Expect(Forward(handle, smaller, data, other) == CUDNN_STATUS_SUCCESS,
         "another batch runs");

  void* const stored = static_cast<cudnnHandle_t>(handle);
  Handle back = static_cast<Handle>(static_cast<cudnnHandle_t>(stored));
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudnnSetStream(back, stream));
  Expect(Forward(back, d, data, offered) == CUDNN_STATUS_SUCCESS &&
             Difference(expected, Output(data, d)) < 1e-5,
         "a handle that was a void* runs on its new stream");

  // Capture a known shape, and one that was never seen.
  const Descriptors unseen(Shape(17));
  Choice plain{CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, 0, -1};
  CHECK(cudnnGetConvolutionForwardWorkspaceSize(
      alone, unseen.x, unseen.w, unseen.conv, unseen.y,
      CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, &plain.workspace));
  CHECK(cudaMemset(data.y.Get(0), 0xff, d.y_elements * 4));
  void* const scratch = data.workspace.Get(
      std::max<std::size_t>({size, plain.workspace, std::size_t{256}}));
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  const cudnnStatus_t first =
      Convolve(handle, kForward, unseen, plain, 1, 0, data.x.Get(0),
               data.w.Get(0), data.y.Get(0), scratch);
  const cudnnStatus_t second =
      Convolve(handle, kForward, d, offered, 1, 0, data.x.Get(0), data.w.Get(0),
               data.y.Get(0), scratch);
  Expect(cudaStreamEndCapture(stream, &graph) == cudaSuccess &&
             first == CUDNN_STATUS_SUCCESS && second == CUDNN_STATUS_SUCCESS,
         "a stream can be captured");
  cudaGraphExec_t exec = nullptr;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphLaunch(exec, stream));
  Expect(Difference(expected, Output(data, d)) < 1e-5,
         "and the graph computes the same");

  Expect(Convolve(handle, kForward, d, offered, 1, 0, nullptr, data.w.Get(0),
                  data.y.Get(0), scratch) != CUDNN_STATUS_SUCCESS,
         "a missing operand is refused");
  Expect(cudnnConvolutionForward(
             handle, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
             CUDNN_CONVOLUTION_FWD_ALGO_GEMM, nullptr, 0, nullptr, nullptr,
             nullptr) != CUDNN_STATUS_SUCCESS,
         "so is nothing at all");

#ifdef UCUDNN_GPU_TEST_HANDLE
  CHECK(ucudnnSetWorkspaceLimit(handle, 1 << 20));
  const Choice little = Choose(handle, kForward, d, kMuch, false);
  Expect(little.workspace <= 1 << 20, "a new limit is kept to");
  Expect(Forward(handle, d, data, little) == CUDNN_STATUS_SUCCESS &&
             Difference(expected, Output(data, d)) < 1e-5,
         "and computes the same");
#endif
  CHECK(cudnnDestroy(handle));
  std::printf("semantics: %d failed\n", failures);
  return failures == 0 ? 0 : 1;
}
