// ucudnn/conv.h on a GPU simulated on the host (tests/support/fake_gpu): on
// streams of the caller's, also while they are captured.

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/conv_problem.h"
#include "tests/support/fake_gpu/fake_gpu.h"
#include "tests/support/process.h"
#include "tests/support/reference_conv.h"
#include "ucudnn/conv.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Field;
using ::testing::SizeIs;

constexpr std::int64_t kConvImages = 32;
constexpr const char* kProblem =
    "backward_filter-c3-h6w6-k4-r3s3-pad1x1-str1x1-dil1x1-g1-FP32-NCHW";

class ConvFakeTest : public ::testing::Test {
 protected:
  ConvFakeTest() {
    setenv("UCUDNN_CACHE_DIR", folder_.path().c_str(), 1);
    EXPECT_EQ(ucudnn_conv_open_gpu(nullptr, 0, &device_), 0)
        << ucudnn_conv_last_error();
    // The fast algorithm takes 8 images.
    EXPECT_EQ(ucudnn_conv_plan(device_, kProblem, kConvImages, 9000, &conv_), 0)
        << ucudnn_conv_last_error();
    EXPECT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    for (const double value : a_) fa_.push_back(static_cast<float>(value));
    for (const double value : b_) fb_.push_back(static_cast<float>(value));
  }
  ~ConvFakeTest() override {
    ucudnn_conv_free(conv_);
    ucudnn_conv_close(device_);
    cuStreamDestroy(stream_);
  }

  int Run() {
    out_.assign(4 * 3 * 9, 7.0F);
    workspace_.resize(static_cast<std::size_t>(ucudnn_conv_workspace(conv_)) +
                      256);
    char* const aligned =
        workspace_.data() + 256 -
        reinterpret_cast<std::uintptr_t>(workspace_.data()) % 256;
    return ucudnn_conv_run(conv_, stream_, fa_.data(), fb_.data(), out_.data(),
                           1, 0, aligned, ucudnn_conv_workspace(conv_));
  }
  std::vector<FakeGpuRun> RunsSince(int number) {
    std::vector<FakeGpuRun> runs;
    for (; number < FakeGpuRuns(); ++number) {
      runs.push_back(FakeGpuRunAt(number));
    }
    return runs;
  }
  void ExpectRight() {
    const auto expected = test::ReferenceConv(
        ParseConvProblem(kProblem).value(), BatchSize(kConvImages), a_, b_);
    for (std::size_t i = 0; i < out_.size(); ++i) {
      ASSERT_NEAR(double{out_[i]}, expected.out[i], 1e-5 * expected.scale);
    }
  }

  test::TemporaryFolder folder_;
  ucudnn_conv_device* device_ = nullptr;
  ucudnn_conv* conv_ = nullptr;
  CUstream stream_ = nullptr;
  const std::vector<double> a_ = test::ExactValues(kConvImages * 3 * 36, 1);
  const std::vector<double> b_ = test::ExactValues(kConvImages * 4 * 36, 2);
  std::vector<float> fa_, fb_, out_;
  std::vector<char> workspace_;
};

TEST_F(ConvFakeTest, DividesTheBatchWithinTheLimit) {
  EXPECT_EQ(ucudnn_conv_workspace(conv_), 8 * std::int64_t{kFakeWorkspace});
  EXPECT_GT(ucudnn_conv_undivided_us(conv_), ucudnn_conv_time_us(conv_));
  const int before = FakeGpuRuns();
  ASSERT_EQ(Run(), 0) << ucudnn_conv_last_error();
  EXPECT_THAT(RunsSince(before),
              AllOf(SizeIs(4), Each(AllOf(Field(&FakeGpuRun::batch, 8),
                                          Field(&FakeGpuRun::algorithm, 1)))));
  ExpectRight();
}

TEST_F(ConvFakeTest, BecomesPartOfTheCallersGraph) {
  const int before = FakeGpuRuns();
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  EXPECT_EQ(Run(), 0) << ucudnn_conv_last_error();
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(FakeGpuRuns(), before);
  CUgraphExec executable = nullptr;
  ASSERT_EQ(cuGraphInstantiate(&executable, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphLaunch(executable, stream_), CUDA_SUCCESS);
  EXPECT_THAT(RunsSince(before), SizeIs(4));
  ExpectRight();
  EXPECT_EQ(cuGraphExecDestroy(executable), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(ConvFakeTest, MeasuresAgainForDeterministicPlans) {
  const auto runs_to_plan = [](int deterministic) {
    ucudnn_conv_device* device = nullptr;
    EXPECT_EQ(ucudnn_conv_open_gpu(nullptr, deterministic, &device), 0);
    const int before = FakeGpuRuns();
    ucudnn_conv* conv = nullptr;
    EXPECT_EQ(ucudnn_conv_plan(device, kProblem, kConvImages, 9000, &conv), 0)
        << ucudnn_conv_last_error();
    ucudnn_conv_free(conv);
    ucudnn_conv_close(device);
    return FakeGpuRuns() - before;
  };
  EXPECT_EQ(runs_to_plan(0), 0) << "what the fixture measured is kept";
  EXPECT_GT(runs_to_plan(1), 0);
  EXPECT_EQ(runs_to_plan(1), 0);
}

TEST_F(ConvFakeTest, RunsUndividedWithoutAWorkspace) {
  ucudnn_conv* conv = nullptr;
  EXPECT_EQ(ucudnn_conv_plan(device_, kProblem, kConvImages, 0, &conv), 0)
      << "algorithm 0 needs none";
  EXPECT_EQ(ucudnn_conv_workspace(conv), 0);
  ucudnn_conv_free(conv);
}

}  // namespace
}  // namespace ucudnn
