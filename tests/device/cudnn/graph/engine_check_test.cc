#include "device/cudnn/graph/engine_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "device/cudnn/graph/graph.h"
#include "tests/device/cudnn/cudnn_fake.h"

namespace ucudnn::cudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

ConvProblem Problem(ConvOp op, Layout layout) {
  ConvProblem problem;
  problem.op = op;
  problem.layout = layout;
  problem.geometry.channels = 8;
  problem.geometry.filters = 12;
  problem.geometry.groups = 2;
  problem.geometry.input = {1, 9, 7};
  problem.geometry.filter = {1, 3, 2};
  problem.geometry.padding = {0, 1, 1};
  problem.geometry.stride = {1, 2, 1};
  problem.geometry.dilation = {1, 1, 2};
  return problem;
}

class EngineCheckTest : public ::testing::Test {
 protected:
  EngineCheckTest() {
    ResetFake();
    Fake().engines = {3};
    Fake().graph_workspace = 64;
  }
  ~EngineCheckTest() override {
    handle_.reset();
    EXPECT_THAT(Fake().memory, IsEmpty()) << "memory was not freed";
  }

  Result<EngineVerdict> Judge(const ConvProblem& problem) {
    EngineBench bench(*handle_, problem);
    return bench.Judge(problem.precision, {3, {}});
  }

  const CudnnApi api_ = FakeCudnn();
  const DriverApi driver_ = FakeDriver();
  std::unique_ptr<CudnnHandle> handle_ =
      CudnnHandle::Wrap(api_, reinterpret_cast<cudnnHandle_t>(0x1), &driver_);
};

TEST_F(EngineCheckTest, FindsNoFaultWithCorrectEngines) {
  for (const Layout layout : kLayouts) {
    for (const ConvOp op : kConvOps) {
      const auto verdict = Judge(Problem(op, layout));
      ASSERT_TRUE(verdict) << verdict.error().message;
      EXPECT_EQ(verdict->fault, "") << Name(op) << " " << Name(layout);
      EXPECT_TRUE(verdict->scales);
    }
  }
}

TEST_F(EngineCheckTest, NoticesAnIgnoredBeta) {
  Fake().ignoring_beta = {3};
  for (const ConvOp op : kConvOps) {
    const auto verdict = Judge(Problem(op, Layout::kNchw));
    ASSERT_TRUE(verdict) << verdict.error().message;
    EXPECT_EQ(verdict->fault, "");
    EXPECT_FALSE(verdict->scales);
  }
}

TEST_F(EngineCheckTest, FindsFaultWithAddingToWhatShouldBeReplaced) {
  Fake().adding_always = {3};
  const auto verdict = Judge(Problem(ConvOp::kForward, Layout::kNchw));
  ASSERT_TRUE(verdict) << verdict.error().message;
  EXPECT_THAT(verdict->fault, HasSubstr("wrong result: nan times"));
}

TEST_F(EngineCheckTest, FindsFaultWithMoreThanRoundingErrors) {
  Fake().imprecise = {3};
  auto verdict = Judge(Problem(ConvOp::kForward, Layout::kNchw));
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->fault, HasSubstr("the error that FP32 admits"));
  // In TF32 it would be a rounding error.
  Fake().rounding_engine = 3;
  ConvProblem rounded = Problem(ConvOp::kForward, Layout::kNchw);
  rounded.precision = Precision::kTf32;
  verdict = Judge(rounded);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->fault, "");
}

TEST_F(EngineCheckTest, FindsFaultWithElementsLeftOut) {
  Fake().unfinished = {3};
  const auto verdict = Judge(Problem(ConvOp::kBackwardFilter, Layout::kNhwc));
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->fault, HasSubstr("wrong result"));
}

TEST_F(EngineCheckTest, RunsAnEngineOnceForAllBatches) {
  const ConvProblem problem = Problem(ConvOp::kForward, Layout::kNchw);
  ASSERT_TRUE(Judge(problem));
  EXPECT_THAT(Fake().runs, SizeIs(3));
  ASSERT_TRUE(ListGraph(*handle_, problem, BatchSize(100)));
  // The same engine with other knobs counts as another one.
  EXPECT_THAT(Fake().runs, SizeIs(6));
  ASSERT_TRUE(ListGraph(*handle_, problem, BatchSize(1)));
  EXPECT_THAT(Fake().runs, SizeIs(6));
}

TEST_F(EngineCheckTest, IsNotRepeatedForAnotherHandlesVerdicts) {
  const ConvProblem problem = Problem(ConvOp::kForward, Layout::kNchw);
  ASSERT_TRUE(Judge(problem));
  const auto other =
      CudnnHandle::Wrap(api_, reinterpret_cast<cudnnHandle_t>(0x2), &driver_);
  other->engine_validation().Merge(handle_->engine_validation());
  Fake().runs.clear();
  ASSERT_TRUE(PrepareGraph(*other, problem, BatchSize(8),
                           {"eng3", "", Precision::kFp32}));
  EXPECT_THAT(Fake().runs, IsEmpty());
}

TEST_F(EngineCheckTest, OffersNoEngineThatIsFaultyOrCannotBeChecked) {
  Fake().engines = {3, 4};
  Fake().adding_always = {3};
  const ConvProblem problem = Problem(ConvOp::kForward, Layout::kNchw);
  const auto listed = ListGraph(*handle_, problem, BatchSize(8));
  ASSERT_TRUE(listed);
  std::vector<std::string> names;
  for (const Candidate& c : *listed) names.push_back(c.algorithm.name);
  EXPECT_THAT(names, ElementsAre("eng4", "eng4-k2=4-k7=1"));
  const auto refused = PrepareGraph(*handle_, problem, BatchSize(8),
                                    {"eng3", "", Precision::kFp32});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNotFound);
  EXPECT_THAT(refused.error().message, HasSubstr("wrong result"));

  // Without memory there is no verdict, and nothing is kept.
  const ConvProblem other = Problem(ConvOp::kBackwardData, Layout::kNchw);
  Fake().next_result = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_THAT(*ListGraph(*handle_, other, BatchSize(8)), IsEmpty());
  EXPECT_EQ(Judge(other).error().code, Code::kResourceExhausted);
  Fake().next_result = CUDA_SUCCESS;
  EXPECT_THAT(*ListGraph(*handle_, other, BatchSize(8)), SizeIs(2));
}

TEST_F(EngineCheckTest, KeepsNothingOfAPlanThatRanOutOfMemory) {
  const ConvProblem problem = Problem(ConvOp::kForward, Layout::kNchw);
  Fake().plan_status = CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
  EXPECT_EQ(Judge(problem).error().code, Code::kResourceExhausted);
  Fake().plan_status = CUDNN_STATUS_SUCCESS;
  const auto verdict = Judge(problem);
  ASSERT_TRUE(verdict) << verdict.error().message;
  EXPECT_EQ(verdict->fault, "");
}

TEST_F(EngineCheckTest, StartsOverAfterMemoryRanOut) {
  // Inputs: three images of 12 channels, 5 rows and 7 columns. Outputs: 8
  // channels, 9 rows and 7 columns.
  const ConvProblem problem = Problem(ConvOp::kBackwardData, Layout::kNchw);
  Fake().largest_allocation = std::size_t{3} * 12 * 5 * 7 * sizeof(float);
  EngineBench bench(*handle_, problem);
  EXPECT_EQ(bench.Judge(problem.precision, {3, {}}).error().code,
            Code::kResourceExhausted);
  EXPECT_THAT(Fake().memory, SizeIs(2));
  Fake().largest_allocation = std::numeric_limits<std::size_t>::max();
  const auto verdict = bench.Judge(problem.precision, {3, {}});
  ASSERT_TRUE(verdict) << verdict.error().message;
  EXPECT_EQ(verdict->fault, "");
  EXPECT_THAT(Fake().memory, SizeIs(4));  // with the workspace
}

TEST_F(EngineCheckTest, ChecksTheFirstSuggestionsAndAllFallbacks) {
  Fake().engines = {3, 4, 5};
  const auto listed =
      ListGraph(*handle_, Problem(ConvOp::kForward, Layout::kNchw),
                BatchSize(8), /*most=*/2);
  ASSERT_TRUE(listed);
  std::vector<std::string> names;
  for (const Candidate& c : *listed) names.push_back(c.algorithm.name);
  EXPECT_THAT(names,
              ElementsAre("eng3", "eng3-k2=4-k7=1", "eng5", "eng5-k2=4-k7=1"));
}

TEST_F(EngineCheckTest, SkipsSuggestionsThatRoundWithoutCountingThem) {
  Fake().engines = {3, 4, 5, 6};
  Fake().rounding_engine = 3;
  const auto names = [&](Precision precision) {
    ConvProblem problem = Problem(ConvOp::kForward, Layout::kNchw);
    problem.precision = precision;
    std::vector<std::string> listed;
    const auto found = ListGraph(*handle_, problem, BatchSize(8), /*most=*/2);
    if (!found) return listed;
    for (const Candidate& c : *found) listed.push_back(c.algorithm.name);
    return listed;
  };
  EXPECT_THAT(names(Precision::kFp32),
              ElementsAre("eng4", "eng4-k2=4-k7=1", "eng6", "eng6-k2=4-k7=1"));
  EXPECT_THAT(names(Precision::kTf32),
              ElementsAre("eng3", "eng3-k2=4-k7=1", "eng6", "eng6-k2=4-k7=1"));
}

TEST_F(EngineCheckTest, UsesFewerImagesIfTheyAreLarge) {
  ConvProblem problem = Problem(ConvOp::kForward, Layout::kNchw);
  EXPECT_EQ(CheckBatch(problem), BatchSize(3));
  problem.geometry.input = {1, 256, 256};
  EXPECT_EQ(CheckBatch(problem), BatchSize(1));
}

}  // namespace
}  // namespace ucudnn::cudnn
