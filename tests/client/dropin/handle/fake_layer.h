#ifndef UCUDNN_TESTS_CLIENT_DROPIN_HANDLE_FAKE_LAYER_H_
#define UCUDNN_TESTS_CLIENT_DROPIN_HANDLE_FAKE_LAYER_H_

// A program's convolution on the fake GPU (tests/support/fake_gpu), through the
// drop-in handle or cuDNN alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "tests/support/fake_gpu/fake_gpu.h"
#include "ucudnn/handle.h"

inline constexpr int kImages = 32;

inline bool HasArena() {
  return std::getenv("UCUDNN_TOTAL_WORKSPACE_SIZE") != nullptr;
}

// Workspace bytes per image of the fast algorithm if no limit is set; 0 if one
// is.
inline std::size_t Unlimited() {
  const char* const text = std::getenv("FAKE_GPU_WORKSPACE");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

// A convolution of the network with its descriptors and operands.
class Layer {
 public:
  Layer(int channels, int filters) {
    const int in[] = {kImages, channels, 6, 6};
    const int out[] = {kImages, filters, 6, 6};
    const int filter[] = {filters, channels, 3, 3};
    const int one[] = {1, 1};
    SetTensor(&x_, in);
    SetTensor(&y_, out);
    cudnnCreateFilterDescriptor(&w_);
    cudnnSetFilterNdDescriptor(w_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4,
                               filter);
    cudnnCreateConvolutionDescriptor(&conv_);
    cudnnSetConvolutionNdDescriptor(conv_, 2, one, one, one,
                                    CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
    cudnnSetConvolutionMathType(conv_, CUDNN_FMA_MATH);
    Fill(kImages * channels * 36, &px_);
    Fill(kImages * filters * 36, &py_);
    Fill(channels * filters * 9, &pw_);
  }
  ~Layer() {
    cudnnDestroyTensorDescriptor(x_);
    cudnnDestroyTensorDescriptor(y_);
    cudnnDestroyFilterDescriptor(w_);
    cudnnDestroyConvolutionDescriptor(conv_);
  }
  Layer(const Layer&) = delete;

  // What a program asks before it runs a convolution: the workspace in bytes.
  template <class Handle>
  std::size_t Ask(Handle handle) {
    int count = 0;
    cudnnConvolutionFwdAlgoPerf_t f = {};
    cudnnConvolutionBwdDataAlgoPerf_t d = {};
    cudnnConvolutionBwdFilterAlgoPerf_t w = {};
    EXPECT_EQ(cudnnGetConvolutionForwardAlgorithm_v7(handle, x_, w_, conv_, y_,
                                                     1, &count, &f),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, w_, y_, conv_,
                                                          x_, 1, &count, &d),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
                  handle, x_, y_, conv_, w_, 1, &count, &w),
              CUDNN_STATUS_SUCCESS);
    forward_ = f.algo;
    data_ = d.algo;
    filter_ = w.algo;
    workspace_.resize(std::max({f.memory, d.memory, w.memory}));
    return workspace_.size();
  }

  // alpha 0.5 and beta 2 for each of the three operations, on the tensors as
  // they are.
  template <class Handle>
  void Run(Handle handle) {
    const float alpha = 0.5F;
    const float beta = 2;
    EXPECT_EQ(
        cudnnConvolutionForward(handle, &alpha, x_, px_.data(), w_, pw_.data(),
                                conv_, forward_, workspace_.data(),
                                workspace_.size(), &beta, y_, out_[0].data()),
        CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnConvolutionBackwardData(handle, &alpha, w_, pw_.data(), y_,
                                           py_.data(), conv_, data_,
                                           workspace_.data(), workspace_.size(),
                                           &beta, x_, out_[1].data()),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(
        cudnnConvolutionBackwardFilter(
            handle, &alpha, x_, px_.data(), y_, py_.data(), conv_, filter_,
            workspace_.data(), workspace_.size(), &beta, w_, out_[2].data()),
        CUDNN_STATUS_SUCCESS);
  }

  // Like a program that lets cuDNN measure, for the forward operation.
  template <class Handle>
  std::size_t Find(Handle handle, std::size_t workspace) {
    workspace_.resize(workspace);
    out_[0].resize(py_.size());
    int count = 0;
    cudnnConvolutionFwdAlgoPerf_t perf = {};
    EXPECT_EQ(
        cudnnFindConvolutionForwardAlgorithmEx(
            handle, x_, px_.data(), w_, pw_.data(), conv_, y_, out_[0].data(),
            1, &count, &perf, workspace_.data(), workspace_.size()),
        CUDNN_STATUS_SUCCESS);
    return perf.memory;
  }
  template <class Handle>
  std::size_t SizeOf(Handle handle, int algorithm) {
    std::size_t size = 0;
    EXPECT_EQ(cudnnGetConvolutionForwardWorkspaceSize(
                  handle, x_, w_, conv_, y_,
                  static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), &size),
              CUDNN_STATUS_SUCCESS);
    return size;
  }
  template <class Handle>
  void RunForward(Handle handle, int algorithm, std::size_t workspace) {
    const float one = 1;
    const float zero = 0;
    workspace_.resize(std::max(workspace, workspace_.size()));
    out_[0].resize(py_.size());
    EXPECT_EQ(cudnnConvolutionForward(
                  handle, &one, x_, px_.data(), w_, pw_.data(), conv_,
                  static_cast<cudnnConvolutionFwdAlgo_t>(algorithm),
                  workspace_.data(), workspace, &zero, y_, out_[0].data()),
              CUDNN_STATUS_SUCCESS);
  }

  // Uses other memory as the workspace; returns the one before.
  std::vector<char> MoveWorkspace() {
    std::vector<char> next(workspace_.size());
    workspace_.swap(next);
    return next;
  }
  void Reset() {
    out_[0].assign(py_.size(), 1);
    out_[1].assign(px_.size(), 1);
    out_[2].assign(pw_.size(), 1);
  }
  const std::vector<float>& out(std::size_t operation) const {
    return out_[operation];
  }

 private:
  static void SetTensor(cudnnTensorDescriptor_t* tensor, const int* dims) {
    const int strides[] = {dims[1] * 36, 36, 6, 1};
    cudnnCreateTensorDescriptor(tensor);
    cudnnSetTensorNdDescriptor(*tensor, CUDNN_DATA_FLOAT, 4, dims, strides);
  }
  static void Fill(int size, std::vector<float>* values) {
    for (int i = 0; i < size; ++i) {
      values->push_back(static_cast<float>(i * 37 % 101) / 101 - 0.5F);
    }
  }

  cudnnTensorDescriptor_t x_ = nullptr;
  cudnnTensorDescriptor_t y_ = nullptr;
  cudnnFilterDescriptor_t w_ = nullptr;
  cudnnConvolutionDescriptor_t conv_ = nullptr;
  std::vector<float> px_, py_, pw_;
  std::vector<float> out_[3];
  std::vector<char> workspace_;
  cudnnConvolutionFwdAlgo_t forward_ = CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
  cudnnConvolutionBwdDataAlgo_t data_ = CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
  cudnnConvolutionBwdFilterAlgo_t filter_ =
      CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
};

// The result of cuDNN alone.
inline std::vector<std::vector<float>> Alone(Layer& layer) {
  cudnnHandle_t handle = nullptr;
  EXPECT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  layer.Ask(handle);
  layer.Reset();
  layer.Run(handle);
  cudnnDestroy(handle);
  return {layer.out(0), layer.out(1), layer.out(2)};
}

inline void ExpectEqual(const Layer& layer,
                        const std::vector<std::vector<float>>& expected) {
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(layer.out(i).size(), expected[i].size());
    float largest = 0;  // difference; a loop, since matchers take too long
    for (std::size_t k = 0; k < expected[i].size(); ++k) {
      const float difference = std::abs(layer.out(i)[k] - expected[i][k]);
      if (!(difference <= largest)) largest = difference;  // NaN stays
    }
    EXPECT_LE(largest, 1e-4F) << "operation " << i;
  }
}

inline std::vector<FakeGpuRun> RunsSince(int number) {
  std::vector<FakeGpuRun> runs;
  for (; number < FakeGpuRuns(); ++number) {
    runs.push_back(FakeGpuRunAt(number));
  }
  return runs;
}

#endif  // UCUDNN_TESTS_CLIENT_DROPIN_HANDLE_FAKE_LAYER_H_
