// The adaptive policy in a process, on a recorded profile of an H200: it
// measures what an agent's campaign would.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "client/dropin/planner/planner.h"
#include "device/measure/campaign.h"
#include "solver/micro_batch/wr.h"
#include "tests/device/measure/recorded_campaigns.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::IsEmpty;

constexpr BatchSize kBatch(256);

class LocalAdaptiveTest : public ::testing::Test {
 protected:
  LocalAdaptiveTest() {
    const Network& network = test::AlexNetOnH200().network;
    device_ = test::Value(OpenRecordedDevice(profile_, network, ""));
    for (const Kernel& kernel :
         KernelsOf(network, Precision::kFp32, Layout::kNchw)) {
      if (kernel.layer == "conv2") problems_.push_back(kernel.problem);
    }
  }

  LocalSolver::Options Options(const std::string& cache = "") const {
    LocalSolver::Options options;
    options.kind = ToString(device_->info().kind);
    options.settings.policy = BatchPolicy::kAdaptive;
    options.settings.workspace_limit = 64_MiB;
    options.settings.cache_dir = cache;
    return options;
  }

  LocalSolver::Bench Bench() {
    return [this]() -> Result<Device*> {
      ++asked_;
      return device_.get();
    };
  }

  // The plan of every algorithm at every batch.
  Nanoseconds BestTime(ConvOp op, Bytes limit) const {
    for (const KernelProfile& kernel : profile_.kernels) {
      if (kernel.id.layer != "conv2" || kernel.id.op != op) continue;
      return SolveWr(kernel, {kBatch, limit, BatchPolicy::kAll})->time;
    }
    return Nanoseconds(0);
  }

  using Sizes = std::set<std::pair<BatchSize, std::string>>;
  static Sizes SizesOf(const std::vector<MeasuredPoint>& points) {
    Sizes sizes;
    for (const MeasuredPoint& p : points) {
      sizes.emplace(p.batch, p.algorithm.name);
    }
    return sizes;
  }

  const Profile& profile_ = test::AlexNetOnH200().profile;
  std::unique_ptr<Device> device_;
  std::vector<ConvProblem> problems_;
  int asked_ = 0;
};

TEST_F(LocalAdaptiveTest, MeasuresWhatAnAgentWould) {
  const test::TemporaryFolder folder;
  const auto options = Options(folder.path());
  LocalSolver planner(options);
  const MeasurementFiles files(folder.path(), options.kind);
  for (const ConvProblem& problem : problems_) {
    const auto plan = planner.Plan(problem, kBatch, 64_MiB, Bench());
    ASSERT_TRUE(plan) << plan.error().message;
    const auto here = files.Read(problem);
    EXPECT_THAT(here.batches, IsEmpty());
    MeasureBench bench(*device_);
    const auto there = RunCampaign(
        *device_, bench, {problem, kBatch, {true, 64_MiB}, 64_MiB, {}}, {}, {},
        {}, {});
    ASSERT_TRUE(there) << there.error().message;
    EXPECT_EQ(SizesOf(here.singles), SizesOf(*there));
    // ... which leads to a nearly optimal plan.
    EXPECT_LE(static_cast<double>(plan->time.count()),
              1.02 * static_cast<double>(BestTime(problem.op, 64_MiB).count()));
  }
}

TEST_F(LocalAdaptiveTest, MeasuresOnceForAllProcesses) {
  const test::TemporaryFolder folder;
  const ConvProblem& problem = problems_[0];
  const auto plan_anew = [&](Bytes limit) {
    asked_ = 0;
    LocalSolver planner(Options(folder.path()));
    EXPECT_TRUE(planner.Plan(problem, kBatch, limit, Bench()));
    return asked_;
  };
  const auto singles = [&] {
    return MeasurementFiles(folder.path(), Options().kind)
        .Read(problem)
        .singles.size();
  };
  EXPECT_GT(plan_anew(64_MiB), 0);
  EXPECT_EQ(plan_anew(64_MiB), 0);
  // A question about another limit starts from the known measurements.
  const std::size_t one = singles();
  EXPECT_GT(plan_anew(40_MiB), 0);
  EXPECT_LT(singles(), 2 * one);
  EXPECT_EQ(plan_anew(40_MiB), 0);
}

TEST_F(LocalAdaptiveTest, StartsFromACoordinatorsMeasurements) {
  const ConvProblem& problem = problems_[0];
  MeasureBench bench(*device_);
  const auto there = RunCampaign(*device_, bench,
                                 {problem, kBatch, {true, 64_MiB}, 64_MiB, {}},
                                 {}, {}, {}, {});
  ASSERT_TRUE(there);
  const test::TemporaryFolder folder;
  auto options = Options(folder.path());
  options.ask = [&](const ConvProblem&) { return KnownElsewhere{*there, {}}; };
  LocalSolver planner(options);
  ASSERT_TRUE(planner.Plan(problem, kBatch, 64_MiB, Bench()));
  const MeasurementFiles files(folder.path(), options.kind);
  EXPECT_EQ(SizesOf(files.Read(problem).singles), SizesOf(*there));
}

TEST_F(LocalAdaptiveTest, MeasuresEveryLimitToDivideATotal) {
  auto options = Options();
  options.settings.total_workspace = 128_MiB;
  LocalSolver planner(options);
  std::vector<LocalSolver::Kernel> kernels;
  for (const ConvProblem& problem : problems_) {
    kernels.push_back({problem, kBatch});
  }
  const auto plans = planner.Divide(kernels, 128_MiB, Bench());
  ASSERT_TRUE(plans) << plans.error().message;
  const int asked = asked_;
  ASSERT_TRUE(planner.Divide(kernels, 64_MiB, Bench()));
  EXPECT_EQ(asked_, asked);
}

}  // namespace
}  // namespace ucudnn
