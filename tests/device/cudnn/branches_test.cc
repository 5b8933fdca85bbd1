#include "device/cudnn/branches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "device/cudnn/algorithm_families.h"
#include "device/cudnn/cudnn_device.h"
#include "device/cudnn/driver/libraries.h"
#include "device/cudnn/driver/stream_graph.h"
#include "device/cudnn/handle.h"
#include "device/reference_element.h"
#include "tests/support/fake_gpu/fake_gpu.h"

namespace ucudnn {
namespace {

constexpr BatchSize kBatch{5};
constexpr ConvOp kOps[] = {ConvOp::kForward, ConvOp::kBackwardData,
                           ConvOp::kBackwardFilter};

ConvProblem Problem(ConvOp op) {
  ConvProblem problem;
  problem.op = op;
  problem.geometry.channels = 2;
  problem.geometry.filters = 3;
  problem.geometry.input = {1, 6, 6};
  problem.geometry.filter = {1, 3, 3};
  return problem;
}

Bytes Floats(std::int64_t count) { return Bytes(count * 4); }

class BranchesTest : public ::testing::TestWithParam<ConvOp> {
 protected:
  void SetUp() override {
    CudnnOptions options;
    options.graph = false;
    options.branches = true;
    auto devices = OpenCudnnDevices(options);
    ASSERT_TRUE(devices) << devices.error().message;
    device_ = std::move(devices->front());
    elements_ = ElementsOf(problem_, kBatch);
    a_ = Uploaded(elements_.a);
    b_ = Uploaded(elements_.b);
  }

  // Small integers, so that sums are exact in any order.
  DeviceBuffer Uploaded(std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i * 7 % 5) - 2;
    }
    auto buffer = device_->Allocate(Floats(count)).value();
    EXPECT_TRUE(device_->Upload(buffer.data(), values.data(), buffer.size()));
    return buffer;
  }

  // What an algorithm makes of an output of ones, by `enqueue` of its run.
  std::vector<float> Result(
      const Algorithm& algorithm, float beta,
      const std::function<Status(const std::function<Status()>&)>& enqueue) {
    const auto convolution =
        device_->Prepare(problem_, kBatch, algorithm).value();
    std::vector<float> out(static_cast<std::size_t>(elements_.out), 1.0F);
    const auto on_device = device_->Allocate(Floats(elements_.out)).value();
    EXPECT_TRUE(
        device_->Upload(on_device.data(), out.data(), on_device.size()));
    const auto workspace = device_->Allocate(convolution->workspace()).value();
    const ConvArgs args = {a_.data(), b_.data(), on_device.data(), 2, beta};
    EXPECT_TRUE(enqueue([&] {
      return convolution->Run(args, workspace.data(), workspace.size());
    }));
    EXPECT_TRUE(device_->Synchronize());
    EXPECT_TRUE(
        device_->Download(out.data(), on_device.data(), on_device.size()));
    return out;
  }
  static Status Run(const std::function<Status()>& work) { return work(); }

  const ConvProblem problem_ = Problem(GetParam());
  std::unique_ptr<Device> device_;
  OperandElements elements_;
  DeviceBuffer a_;
  DeviceBuffer b_;
};

TEST_P(BranchesTest, AreListedWithTheWorkspaceOfBoth) {
  const auto listed = device_->ListAlgorithms(problem_, kBatch);
  ASSERT_TRUE(listed) << listed.error().message;
  ASSERT_EQ(listed->size(), 4U);
  // Three images, two, and a gradient of 54 elements; each aligned.
  const std::int64_t gradient = GetParam() == ConvOp::kBackwardFilter ? 256 : 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const Candidate& each = (*listed)[i];
    const Candidate& both = (*listed)[i + 2];
    EXPECT_EQ(both.algorithm, InTwoBranches(each.algorithm));
    EXPECT_EQ(both.workspace.count(),
              (each.workspace > 0_B ? 3072 + 2048 : 0) + gradient);
    const auto prepared = device_->Prepare(problem_, kBatch, both.algorithm);
    ASSERT_TRUE(prepared) << prepared.error().message;
    EXPECT_EQ((*prepared)->workspace(), both.workspace);
  }
}

TEST_P(BranchesTest, GiveTheResultOfTheWhole) {
  const auto listed = device_->ListAlgorithms(problem_, kBatch).value();
  for (const float beta : {0.0F, 1.0F, 3.0F}) {
    const std::vector<float> whole = Result(listed[0].algorithm, beta, Run);
    for (const Candidate& candidate : listed) {
      const int before = FakeGpuRuns();
      EXPECT_EQ(Result(candidate.algorithm, beta, Run), whole);
      if (!EachBranch(candidate.algorithm)) continue;
      ASSERT_EQ(FakeGpuRuns(), before + 2);
      EXPECT_EQ(FakeGpuRunAt(before).batch, 2);
      EXPECT_EQ(FakeGpuRunAt(before + 1).batch, 3);
    }
  }
}

TEST_P(BranchesTest, AreCapturedWithTheStreamTheyForkFrom) {
  const auto listed = device_->ListAlgorithms(problem_, kBatch).value();
  const std::vector<float> whole = Result(listed[0].algorithm, 1, Run);
  for (std::size_t i = 2; i < 4; ++i) {
    int runs = 0;
    const auto result = Result(
        listed[i].algorithm, 1,
        [&](const std::function<Status()>& work) -> Status {
          const int before = FakeGpuRuns();
          UCUDNN_ASSIGN_OR_RETURN(const auto captured, device_->Capture(work));
          EXPECT_EQ(FakeGpuRuns(), before);
          UCUDNN_RETURN_IF_ERROR(captured->Enqueue());
          runs = FakeGpuRuns() - before;
          return {};
        });
    EXPECT_EQ(runs, 2);
    EXPECT_EQ(result, whole);
  }
}

// As the drop-in handle runs them: on a cuDNN handle of the program, on
// whatever stream it sets, also while the program captures that.
TEST_P(BranchesTest, WorkOnAHandleOfTheProgram) {
  const auto libraries = cudnn::LoadedLibraries();
  ASSERT_TRUE(libraries) << libraries.error().message;
  const cudnn::DriverApi& driver = (*libraries)->driver;
  const auto listed = device_->ListAlgorithms(problem_, kBatch).value();
  const Algorithm& branched = listed.back().algorithm;
  ASSERT_TRUE(EachBranch(branched));
  const std::vector<float> whole = Result(listed[0].algorithm, 1, Run);
  cudnnHandle_t theirs = nullptr;
  ASSERT_EQ(cudnnCreate(&theirs), CUDNN_STATUS_SUCCESS);
  {
    const auto handle =
        cudnn::CudnnHandle::Wrap((*libraries)->cudnn, theirs, &driver);
    const auto convolution =
        cudnn::PrepareConvolution(*handle, problem_, kBatch, branched).value();
    std::vector<char> workspace(
        static_cast<std::size_t>(convolution->workspace().count()));
    for (const bool captures : {false, true}) {
      CUstream stream = nullptr;
      ASSERT_EQ(driver.StreamCreate(&stream, CU_STREAM_NON_BLOCKING),
                CUDA_SUCCESS);
      ASSERT_EQ(cudnnSetStream(theirs, stream), CUDNN_STATUS_SUCCESS);
      std::vector<float> out(whole.size(), 1.0F);
      const auto run = [&] {
        return convolution->Run({a_.data(), b_.data(), out.data(), 2, 1},
                                workspace.data(), convolution->workspace());
      };
      if (captures) {
        const auto graph = cudnn::StreamGraph::Capture(driver, stream, run);
        ASSERT_TRUE(graph) << graph.error().message;
        EXPECT_NE(out, whole);
        EXPECT_EQ((*graph)->Launch(stream), CUDA_SUCCESS);
      } else {
        EXPECT_TRUE(run());
      }
      EXPECT_EQ(out, whole);
      ASSERT_EQ(cudnnSetStream(theirs, nullptr), CUDNN_STATUS_SUCCESS);
      EXPECT_EQ(driver.StreamDestroy(stream), CUDA_SUCCESS);
    }
  }
  EXPECT_EQ(cudnnDestroy(theirs), CUDNN_STATUS_SUCCESS);
}

TEST_P(BranchesTest, AreSuggestedLast) {
  const auto suggested = device_->SuggestAlgorithms(problem_, kBatch);
  ASSERT_TRUE(suggested) << suggested.error().message;
  std::vector<bool> branched;
  for (const Candidate& candidate : *suggested) {
    branched.push_back(EachBranch(candidate.algorithm).has_value());
  }
  EXPECT_EQ(branched, (std::vector<bool>{false, false, true, true}));
}

TEST_P(BranchesTest, NeedTwoImagesAndAKnownAlgorithm) {
  const auto listed = device_->ListAlgorithms(problem_, kBatch).value();
  const auto single = device_->ListAlgorithms(problem_, BatchSize(1)).value();
  EXPECT_EQ(single.size(), 2U);
  const auto one =
      device_->Prepare(problem_, BatchSize(1), listed[2].algorithm);
  ASSERT_FALSE(one);
  EXPECT_EQ(one.error().code, Code::kNotFound);
  const auto unknown = device_->Prepare(problem_, kBatch,
                                        {"2xNOTHING", "FMA", Precision::kFp32});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kNotFound);
}

TEST_P(BranchesTest, RefuseTooSmallAWorkspace) {
  const auto listed = device_->ListAlgorithms(problem_, kBatch).value();
  const Candidate& larger = *std::ranges::max_element(
      listed, {}, [](const Candidate& c) { return c.workspace; });
  ASSERT_TRUE(EachBranch(larger.algorithm));
  const auto convolution =
      device_->Prepare(problem_, kBatch, larger.algorithm).value();
  const auto out = device_->Allocate(Floats(elements_.out)).value();
  const auto workspace = device_->Allocate(larger.workspace).value();
  const Status ran = convolution->Run({a_.data(), b_.data(), out.data()},
                                      workspace.data(), larger.workspace - 1_B);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().code, Code::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Operations, BranchesTest, ::testing::ValuesIn(kOps),
                         [](const auto& parameter) {
                           return std::string(Name(parameter.param));
                         });

}  // namespace
}  // namespace ucudnn
