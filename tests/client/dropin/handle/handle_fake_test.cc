// The drop-in handle's library in a program, on a GPU simulated on the host
// (tests/support/fake_gpu). The environment configures it and is read once, so
// tests of an arena run in a process of their own.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/dropin/handle/counts.h"
#include "tests/support/fake_gpu/fake_gpu.h"
#include "tests/support/process.h"
#include "ucudnn/handle.h"

namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::FloatNear;
using ::testing::Pointwise;
using ::testing::SizeIs;

constexpr int kImages = 32;

// conv1 3 -> 4, conv2 4 -> 4 and conv3 4 -> 6 channels, all 6x6 with a 3x3
// filter.
constexpr const char* kNetwork =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,6,6,4,3,3,1,1,1,1,1\n"
    "conv2,4,6,6,4,3,3,1,1,1,1,1\n"
    "conv3,4,6,6,6,3,3,1,1,1,1,1\n";

bool HasArena() {
  return std::getenv("UCUDNN_TOTAL_WORKSPACE_SIZE") != nullptr;
}

// Workspace bytes per image of the fast algorithm if no limit is set; 0 if one
// is.
std::size_t Unlimited() {
  const char* const text = std::getenv("FAKE_GPU_WORKSPACE");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

// Runs before any ucudnn code.
class Surroundings : public ::testing::Environment {
 public:
  Surroundings() {
    setenv("UCUDNN_CACHE_DIR", folder_.path().c_str(), 1);
    if (Unlimited() == 0) setenv("UCUDNN_WORKSPACE_LIMIT", "9000", 1);
    std::ofstream(folder_ / "network.csv") << kNetwork;
    setenv("UCUDNN_NETWORK_FILE", (folder_ / "network.csv").c_str(), 1);
  }

 private:
  ucudnn::test::TemporaryFolder folder_;
};
const auto* const surroundings =
    ::testing::AddGlobalTestEnvironment(new Surroundings);

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
std::vector<std::vector<float>> Alone(Layer& layer) {
  cudnnHandle_t handle = nullptr;
  EXPECT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  layer.Ask(handle);
  layer.Reset();
  layer.Run(handle);
  cudnnDestroy(handle);
  return {layer.out(0), layer.out(1), layer.out(2)};
}

void ExpectEqual(const Layer& layer,
                 const std::vector<std::vector<float>>& expected) {
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_THAT(layer.out(i), Pointwise(FloatNear(1e-4F), expected[i]));
  }
}

std::vector<FakeGpuRun> RunsSince(int number) {
  std::vector<FakeGpuRun> runs;
  for (; number < FakeGpuRuns(); ++number) {
    runs.push_back(FakeGpuRunAt(number));
  }
  return runs;
}

class HandleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (HasArena() || Unlimited() > 0) {
      GTEST_SKIP() << "of a limit for each convolution";
    }
    ASSERT_EQ(cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
  }
  void TearDown() override {
    if (handle_ != nullptr) cudnnDestroy(handle_);
  }
  UcudnnHandle_t handle_ = nullptr;
};

TEST_F(HandleTest, RunsMicroBatchesWithinTheLimit) {
  Layer layer(3, 4);
  const auto expected = Alone(layer);
  EXPECT_EQ(layer.Ask(handle_), 8 * kFakeWorkspace);
  layer.Reset();
  const int before = FakeGpuRuns();
  layer.Run(handle_);
  const auto runs = RunsSince(before);
  EXPECT_THAT(runs, SizeIs(12));
  for (const FakeGpuRun& run : runs) {
    EXPECT_EQ(run.batch, 8);
    EXPECT_EQ(run.algorithm, 1);
    EXPECT_EQ(run.workspace_size, 8 * kFakeWorkspace);
  }
  ExpectEqual(layer, expected);
}

TEST_F(HandleTest, FollowsAChangedLimit) {
  Layer layer(3, 4);
  ASSERT_EQ(ucudnnSetWorkspaceLimit(handle_, 16 * kFakeWorkspace),
            CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(layer.Ask(handle_), 16 * kFakeWorkspace);
  ASSERT_EQ(ucudnnSetWorkspaceLimit(handle_, 0), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(layer.Ask(handle_), 0U);
}

TEST_F(HandleTest, NeitherAllocatesNorLocksOncePlanned) {
  if (!IsCounting()) GTEST_SKIP() << "the thread sanitizer counts for itself";
  Layer layer(3, 4);
  layer.Ask(handle_);
  layer.Reset();
  layer.Run(handle_);
  const int runs = FakeGpuRuns();
  const int allocated = Allocations();
  const int locked = Locks();
  EXPECT_GT(allocated, 0);
  EXPECT_GT(locked, 0);
  for (int step = 0; step < 20; ++step) layer.Run(handle_);
  EXPECT_EQ(FakeGpuRuns() - runs, 20 * 12);
  EXPECT_EQ(Allocations(), allocated);
  EXPECT_EQ(Locks(), locked);
}

TEST_F(HandleTest, ServesThreadsWithHandlesOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      UcudnnHandle_t handle;
      ASSERT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
      Layer layer(3 + t % 2, 5);
      layer.Ask(handle);
      layer.Reset();
      layer.Run(handle);
      EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Without a limit, nothing may become slower than with cuDNN alone. The fast
// algorithm needs 64 MiB for half of the images.
class NoLimitTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Unlimited() == 0) GTEST_SKIP() << "of convolutions without a limit";
    unsetenv("FAKE_GPU_SUGGESTION");
    ASSERT_EQ(cudnnCreate(&handle_), CUDNN_STATUS_SUCCESS);
  }
  void TearDown() override {
    if (handle_ != nullptr) cudnnDestroy(handle_);
  }
  static auto Is(int batch, int algorithm) {
    return AllOf(Field("batch", &FakeGpuRun::batch, batch),
                 Field("algorithm", &FakeGpuRun::algorithm, algorithm));
  }

  const std::size_t whole_ = kImages * Unlimited();
  UcudnnHandle_t handle_ = nullptr;
};

TEST_F(NoLimitTest, LeavesCudnnsChoiceItsWorkspaceIfItIsFastest) {
  Layer layer(3, 4);
  EXPECT_EQ(layer.Ask(handle_), whole_);
  layer.Reset();
  const int before = FakeGpuRuns();
  layer.Run(handle_);
  EXPECT_THAT(RunsSince(before), AllOf(SizeIs(3), Each(Is(kImages, 1))));
}

TEST_F(NoLimitTest, ReplacesASlowChoiceWithinTheDefaultLimit) {
  setenv("FAKE_GPU_SUGGESTION", "0", 1);
  Layer layer(3, 5);
  const auto expected = Alone(layer);
  EXPECT_EQ(layer.Ask(handle_), whole_ / 2);
  layer.Reset();
  const int before = FakeGpuRuns();
  layer.Run(handle_);
  EXPECT_THAT(RunsSince(before), AllOf(SizeIs(6), Each(Is(kImages / 2, 1))));
  ExpectEqual(layer, expected);
}

TEST_F(NoLimitTest, FindsWithinTheWorkspaceThatTheProgramOffers) {
  Layer layer(3, 6);
  EXPECT_EQ(layer.Find(handle_, whole_ - 1), whole_ / 2);
  // The workspace that the program brings is what counts.
  EXPECT_EQ(layer.Find(handle_, whole_), whole_);
  const int before = FakeGpuRuns();
  layer.RunForward(handle_, 1, whole_);
  EXPECT_THAT(RunsSince(before), ElementsAre(Is(kImages, 1)));
}

TEST_F(NoLimitTest, LetsAProgramKeepItsOwnAlgorithm) {
  Layer layer(3, 7);
  EXPECT_EQ(layer.SizeOf(handle_, 1), whole_);
  EXPECT_EQ(layer.SizeOf(handle_, 0), 0U);
  layer.RunForward(handle_, 1, whole_);  // plans
  int before = FakeGpuRuns();
  layer.RunForward(handle_, 1, whole_);
  EXPECT_THAT(RunsSince(before), ElementsAre(Is(kImages, 1)));
  // A slow algorithm is replaced within the workspace that the program brings.
  layer.RunForward(handle_, 0, whole_ / 2);
  layer.RunForward(handle_, 0, 0);
  before = FakeGpuRuns();
  layer.RunForward(handle_, 0, 0);
  layer.RunForward(handle_, 0, whole_ / 2);
  layer.RunForward(handle_, 0, whole_ / 4);
  layer.RunForward(handle_, 0, 2 * whole_);
  EXPECT_THAT(RunsSince(before),
              ElementsAre(Is(kImages, 0), Is(16, 1), Is(16, 1), Is(8, 1),
                          Is(8, 1), Is(8, 1), Is(8, 1), Is(kImages, 1)));
}

TEST_F(NoLimitTest, AsksForNoMoreThanItOffered) {
  setenv("FAKE_GPU_SUGGESTION", "0", 1);
  Layer layer(3, 8);
  layer.Ask(handle_);
  // The algorithm by whose name the division was offered.
  EXPECT_EQ(layer.SizeOf(handle_, 0), whole_ / 2);
  EXPECT_EQ(layer.SizeOf(handle_, 1), whole_);
}

TEST_F(NoLimitTest, NoLongerAppliesOnceALimitIsSet) {
  Layer layer(3, 9);
  EXPECT_EQ(layer.Ask(handle_), whole_);
  ASSERT_EQ(ucudnnSetWorkspaceLimit(handle_, whole_ / 4), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(layer.Ask(handle_), whole_ / 4);
}

class ArenaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasArena()) GTEST_SKIP() << "of one workspace for all convolutions";
  }
};

TEST_F(ArenaTest, IsDividedOnceForANamedNetwork) {
  UcudnnHandle_t handle;
  ASSERT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  Layer layers[] = {{3, 4}, {4, 4}, {4, 6}};
  const int waits = FakeGpuContextWaits();
  const int before = FakeGpuRuns();
  for (Layer& layer : layers) {
    const auto expected = Alone(layer);
    // The program asks about each convolution just before it runs it.
    EXPECT_EQ(layer.Ask(handle), 0U);
    layer.Reset();
    layer.Run(handle);
    ExpectEqual(layer, expected);
  }
  EXPECT_EQ(FakeGpuContextWaits() - waits, 1);
  EXPECT_GT(FakeGpuRuns(), before);
  // A convolution that is not in the network causes a new division.
  Layer other(5, 5);
  other.Ask(handle);
  other.Reset();
  other.Run(handle);
  EXPECT_GT(FakeGpuContextWaits() - waits, 1);
  EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
}

TEST_F(ArenaTest, KeepsThreadsApart) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      UcudnnHandle_t handle;
      ASSERT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
      Layer layer(3 + t % 2, 4);
      const auto expected = Alone(layer);
      for (int step = 0; step < 5; ++step) {
        layer.Ask(handle);
        layer.Reset();
        layer.Run(handle);
        ExpectEqual(layer, expected);
      }
      EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
