#include "device/accuracy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "device/forwarding_device.h"
#include "device/measure/campaign.h"
#include "device/onednn/onednn_device.h"
#include "tests/support/reference_conv.h"

namespace ucudnn {
namespace {

std::vector<Algorithm> ListedBy(Device& device, const ConvProblem& problem) {
  std::vector<Algorithm> algorithms;
  const auto listed = device.ListAlgorithms(problem, BatchSize(3)).value();
  for (const Candidate& c : listed) algorithms.push_back(c.algorithm);
  return algorithms;
}

// Runs as another convolution does, then adds to the first elements.
class InexactConvolution final : public Convolution {
 public:
  explicit InexactConvolution(std::unique_ptr<Convolution> exact)
      : exact_(std::move(exact)) {}
  Bytes workspace() const override { return exact_->workspace(); }
  Status Run(const ConvArgs& args, void* workspace, Bytes size) override {
    UCUDNN_RETURN_IF_ERROR(exact_->Run(args, workspace, size));
    auto* out = static_cast<float*>(args.out);
    for (int i = 0; i < 64; ++i) out[i] += 1e-2F * args.alpha;
    return {};
  }

 private:
  std::unique_ptr<Convolution> exact_;
};

// A device of which one algorithm errs.
class SloppyDevice final : public ForwardingDevice {
 public:
  SloppyDevice(Device& device, Algorithm inexact)
      : ForwardingDevice(device), inexact_(std::move(inexact)) {}

  // Has no last resorts, which are measured only if nothing else fits.
  Result<std::vector<Candidate>> ListAlgorithms(const ConvProblem& problem,
                                                BatchSize batch) override {
    auto listed = device_.ListAlgorithms(problem, batch);
    if (!listed) return listed;
    for (Candidate& candidate : *listed) candidate.last_resort = false;
    return listed;
  }
  std::vector<Result<std::vector<Candidate>>> ListAlgorithmsOfEach(
      const ConvProblem& problem, std::span<const BatchSize> batches) override {
    return Device::ListAlgorithmsOfEach(problem, batches);
  }
  Result<std::unique_ptr<Convolution>> Prepare(
      const ConvProblem& problem, BatchSize batch,
      const Algorithm& algorithm) override {
    ++prepared;
    auto convolution = device_.Prepare(problem, batch, algorithm);
    if (!convolution || algorithm != inexact_) return convolution;
    return std::make_unique<InexactConvolution>(*std::move(convolution));
  }

  int prepared = 0;

 private:
  const Algorithm inexact_;
};

class AlgorithmErrorsTest : public ::testing::Test {
 protected:
  AlgorithmErrorsTest() : device_(OpenOneDnnDevice({.threads = 1}).value()) {
    algorithms_ = ListedBy(*device_, problem_);
    sloppy_ = std::make_unique<SloppyDevice>(*device_, algorithms_[0]);
  }

  const ConvProblem problem_ = test::GroupedProblem(ConvOp::kForward);
  std::unique_ptr<Device> device_;
  std::vector<Algorithm> algorithms_;
  std::unique_ptr<SloppyDevice> sloppy_;  // its first algorithm errs
};

TEST_F(AlgorithmErrorsTest, FindsThatExactAlgorithmsAreExact) {
  for (const ConvOp op : kConvOps) {
    for (const Layout layout : kLayouts) {
      ConvProblem deep = test::GroupedProblem(op, layout);
      deep.geometry.spatial_dims = 3;
      deep.geometry.input[0] = 4;
      deep.geometry.filter[0] = 2;
      deep.geometry.padding[0] = 1;
      for (const ConvProblem& problem :
           {test::GroupedProblem(op, layout), deep}) {
        std::vector<Algorithm> algorithms = ListedBy(*device_, problem);
        algorithms.push_back({"no such algorithm", "", Precision::kFp32});
        const auto errors =
            AlgorithmErrors().Of(*device_, problem, BatchSize(3), algorithms);
        ASSERT_TRUE(errors) << errors.error().message;
        for (std::size_t i = 0; i + 1 < algorithms.size(); ++i) {
          EXPECT_LT(FromPpt((*errors)[i]), 1e-5)
              << ToString(problem) << " " << algorithms[i].name;
          EXPECT_GT((*errors)[i], 0);
        }
        EXPECT_EQ(errors->back(), kUselessPpt);
      }
    }
  }
}

TEST_F(AlgorithmErrorsTest, MeasuresEachAlgorithmOnce) {
  ASSERT_GT(algorithms_.size(), 1U);
  AlgorithmErrors errors;
  const auto first = errors.Of(*sloppy_, problem_, BatchSize(3), algorithms_);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_GT(FromPpt((*first)[0]), 1e-4);
  EXPECT_LT(FromPpt((*first)[1]), 1e-5);
  EXPECT_EQ(sloppy_->prepared, std::ssize(algorithms_));
  EXPECT_EQ(errors.Of(*sloppy_, problem_, BatchSize(64), algorithms_), first);
  EXPECT_EQ(sloppy_->prepared, std::ssize(algorithms_));
}

TEST_F(AlgorithmErrorsTest, SuggestsTheFirstThatIsAccurateEnough) {
  AlgorithmErrors errors;
  const auto suggest = [&](double max_error) {
    return SuggestWithin(*sloppy_, problem_, BatchSize(3), 1_GiB, max_error,
                         &errors);
  };
  const auto by_default = suggest(kDefaultMaxError);
  ASSERT_TRUE(by_default) << by_default.error().message;
  EXPECT_EQ(by_default->algorithm, algorithms_[1]);
  EXPECT_EQ(suggest(0.5)->algorithm, algorithms_[0]);
  const auto none = suggest(1e-12);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kFailedPrecondition);
}

TEST_F(AlgorithmErrorsTest, CampaignsReportErrorsAndDivideByAccurateOnes) {
  for (const bool adaptive : {false, true}) {
    MeasureBench bench(*sloppy_);
    const CampaignTask task{
        .problem = problem_,
        .batch = BatchSize(8),
        .goal = {.adaptive = adaptive, .limit = std::nullopt},
        .max_workspace = 64_MiB,
        .known = {}};
    MeasureOptions options;
    options.max_repeats = 3;
    options.group_time = Nanoseconds(0);
    options.cold = 0;
    options.hopeless_factor = 1e6;
    const auto points = RunCampaign(*sloppy_, bench, task, options, {}, {}, {});
    ASSERT_TRUE(points) << points.error().message;
    int inexact = 0;
    for (const MeasuredPoint& point : *points) {
      EXPECT_GT(point.error_ppt, 0);
      if (point.algorithm != algorithms_[0]) continue;
      ++inexact;
      EXPECT_GT(FromPpt(point.error_ppt), 1e-4);
      EXPECT_EQ(point.batch, task.batch);
    }
    // One look, so that it is known what it would gain.
    EXPECT_EQ(inexact, 1);
    EXPECT_GT(points->size(), 1U);
  }
}

}  // namespace
}  // namespace ucudnn
