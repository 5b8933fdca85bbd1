#include "solver/knapsack/wd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "solver/check/validate.h"
#include "tests/solver/instances.h"
#include "tests/support/paths.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using test::Draw;
using test::InstanceShape;
using test::Point;
using test::Random;
using test::RandomKernel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

WrRequest Request(std::int64_t batch, std::int64_t limit,
                  BatchPolicy policy = BatchPolicy::kAll) {
  return {BatchSize(batch), Bytes(limit), policy};
}

KernelProfile Named(const std::string& layer,
                    std::vector<MeasuredPoint> points) {
  KernelProfile kernel;
  kernel.id.layer = layer;
  kernel.points = std::move(points);
  return kernel;
}

// Two layers of batch 4. GEMM takes 20 with no workspace. FFT takes 10 with 8
// units undivided, or twice 6 with 4. The second layer gains half as much.
Profile TwoLayers() {
  return {{Named("slow", {Point(4, "GEMM", 0, 20), Point(4, "FFT", 8, 10),
                          Point(2, "FFT", 4, 6)}),
           Named("fast", {Point(4, "GEMM", 0, 10), Point(4, "FFT", 8, 5),
                          Point(2, "FFT", 4, 3)})}};
}

TEST(WdTest, GivesWorkspaceToTheLayerThatGainsMost) {
  const auto plan = SolveWd(TwoLayers(), Request(4, 8));
  ASSERT_TRUE(plan) << plan.error().message;
  // 12 + 6 if each has half; 10 + 10 if the slow one has everything.
  EXPECT_EQ(plan->total_time, Nanoseconds(18));
  EXPECT_EQ(plan->lower_bound, Nanoseconds(18));
  EXPECT_TRUE(plan->optimal);
  EXPECT_EQ(plan->total_workspace, Bytes(8));
  EXPECT_EQ(plan->undivided_time, Nanoseconds(20));
  EXPECT_EQ(plan->kernels[0].micro_batches.at(0).count, 2);

  const auto more = SolveWd(TwoLayers(), Request(4, 12));
  EXPECT_EQ(more->total_time, Nanoseconds(16));  // 10 + 6
  EXPECT_EQ(more->kernels[0].offset, Bytes(0));  // its size is more aligned
  EXPECT_EQ(more->kernels[1].offset, Bytes(8));
}

TEST(WdTest, NamesTheSmallestSufficientTotalLimit) {
  const Profile profile = {
      {Named("a", {Point(2, "X", 5, 1)}), Named("b", {Point(1, "X", 7, 1)})}};
  for (const std::int64_t limit : {0, 6, 11}) {
    const auto plan = SolveWd(profile, Request(2, limit));
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
    EXPECT_THAT(plan.error().message, HasSubstr("would do is 12"));
  }
  EXPECT_TRUE(SolveWd(profile, Request(2, 12)));
  const auto odd = SolveWd(profile, Request(3, 100));
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(odd.error().message, HasSubstr("a forward FP32"));
  EXPECT_THAT(odd.error().message, HasSubstr("that would do is 2"));
}

TEST(WdTest, HasNoUndividedTimesIfNothingUndividedFits) {
  const Profile profile = {
      {Named("a", {Point(1, "X", 1, 3)}), Named("b", {Point(2, "X", 0, 3)})}};
  const auto plan = SolveWd(profile, Request(2, 1));
  ASSERT_TRUE(plan);
  EXPECT_FALSE(plan->kernels[0].undivided_time.has_value());
  EXPECT_EQ(plan->kernels[1].undivided_time, Nanoseconds(3));
  EXPECT_FALSE(plan->undivided_time.has_value());
}

TEST(WdTest, RefusesInvalidRequests) {
  EXPECT_EQ(SolveWd({}, Request(1, 1)).error().code, Code::kInvalidArgument);
  for (const auto& request : {Request(0, 1), Request(1, -1)}) {
    EXPECT_EQ(SolveWd(TwoLayers(), request).error().code,
              Code::kInvalidArgument);
  }
  const std::vector<std::span<const FrontPoint>> empty(1);
  EXPECT_EQ(DivideWorkspace(empty, Bytes(1)).error().code,
            Code::kInvalidArgument);
}

// The least time over all combinations of configurations of all kernels.
std::optional<std::int64_t> ByEnumeration(const Profile& profile,
                                          const WrRequest& request) {
  std::vector<std::optional<std::int64_t>> best(
      static_cast<std::size_t>(request.workspace_limit.count()) + 1, 0);
  for (const KernelProfile& kernel : profile.kernels) {
    std::vector<std::optional<std::int64_t>> next(best.size());
    test::ForEachConfiguration(
        kernel.points, request.batch.count(), request.policy,
        [&](const test::Score& score) {
          for (std::size_t w = 0; w < best.size(); ++w) {
            const auto at = w + static_cast<std::size_t>(score.workspace);
            if (!best[w].has_value() || at >= best.size()) continue;
            const std::int64_t time = *best[w] + score.time;
            if (!next[at].has_value() || *next[at] > time) next[at] = time;
          }
        });
    best = next;
  }
  std::optional<std::int64_t> least;
  for (const auto& time : best) {
    if (time.has_value() && (!least.has_value() || *time < *least)) {
      least = time;
    }
  }
  return least;
}

Profile RandomProfile(Random& random, std::int64_t kernels,
                      std::int64_t spread) {
  InstanceShape shape;
  shape.max_batch = Draw(random, 1, 6);
  shape.max_spread = spread;
  Profile profile;
  for (std::int64_t k = 0; k < kernels; ++k) {
    if (k > 0 && Draw(random, 0, 2) == 0) {
      profile.kernels.push_back(profile.kernels.back());
      profile.kernels.back().id.layer = fmt::format("conv{}", k);
    } else {
      profile.kernels.push_back(
          RandomKernel(random, shape, fmt::format("conv{}", k)));
    }
  }
  return profile;
}

TEST(WdTest, EqualsTheEnumerationOfAllConfigurations) {
  Random random(11);
  int solved = 0;
  for (int trial = 0; trial < Trials(4000); ++trial) {
    const Profile profile = RandomProfile(random, Draw(random, 1, 5), 0);
    const WrRequest request =
        Request(Draw(random, 1, 8), Draw(random, 0, 40),
                static_cast<BatchPolicy>(Draw(random, 0, 2)));
    const auto plan = SolveWd(profile, request);
    const auto least = ByEnumeration(profile, request);
    ASSERT_EQ(plan.has_value(), least.has_value()) << trial;
    if (!plan) continue;
    ++solved;
    ASSERT_EQ(plan->total_time.count(), *least) << trial;
    ASSERT_TRUE(plan->optimal);
    const Status valid = ValidatePlan(
        *plan, profile, {WorkspaceMode::kDivision, request.policy, {}});
    ASSERT_TRUE(valid) << valid.error().message;
  }
  EXPECT_GT(solved, Trials(1000));
}

TEST(WdTest, IsNeverSlowerThanWorkspaceReuseWithTheLimitSharedEvenly) {
  Random random(12);
  int compared = 0;
  for (int trial = 0; trial < Trials(2000); ++trial) {
    const std::int64_t kernels = Draw(random, 1, 8);
    const Profile profile =
        RandomProfile(random, kernels, trial % 2 == 0 ? 0 : 3);
    const std::int64_t each = Draw(random, 0, 12);
    const std::int64_t batch = Draw(random, 1, 6);
    const auto wr = SolveWr(profile, Request(batch, each));
    const auto wd = SolveWd(profile, Request(batch, each * kernels));
    if (!wr) continue;
    ++compared;
    ASSERT_TRUE(wd) << wd.error().message;
    EXPECT_LE(wd->total_time, wr->total_time) << trial;
  }
  EXPECT_GT(compared, Trials(300));
}

TEST(WdTest, IsNeverSlowerWithMoreWorkspace) {
  Random random(13);
  for (int trial = 0; trial < Trials(200); ++trial) {
    const Profile profile = RandomProfile(random, 6, 0);
    Nanoseconds last = Nanoseconds::max();
    bool solved = false;
    for (std::int64_t limit = 0; limit < 80; limit += 3) {
      const auto plan = SolveWd(profile, Request(6, limit));
      EXPECT_TRUE(plan.has_value() || !solved);
      if (!plan) continue;
      solved = true;
      EXPECT_LE(plan->total_time, last);
      last = plan->total_time;
    }
  }
}

TEST(WdTest, DividesAmongKernelsGivenByTheirFronts) {
  const std::vector<FrontPoint> shared = {{Nanoseconds(9), Bytes(0)},
                                          {Nanoseconds(4), Bytes(3)}};
  const std::vector<FrontPoint> other = {{Nanoseconds(7), Bytes(0)},
                                         {Nanoseconds(1), Bytes(4)}};
  const std::vector<std::span<const FrontPoint>> fronts = {shared, other,
                                                           shared};
  const auto division = DivideWorkspace(fronts, Bytes(7));
  ASSERT_TRUE(division);
  EXPECT_EQ(division->time, Nanoseconds(14));
  EXPECT_EQ(division->point[1], 1U);
  // Part of the same memory is a different front.
  const std::vector<std::span<const FrontPoint>> parts = {
      shared, std::span(shared).first(1), shared};
  EXPECT_THAT(DivideWorkspace(parts, Bytes(9))->point, ElementsAre(1, 0, 1));
}

// All convolutions of an iteration, FP32, with 8 and 64 MiB for each.
TEST(WdTest, DividesAlexNetOnTheH200BetterThanEvenShares) {
  const auto profile =
      ReadProfileFile(test::DataPath("h200/alexnet_b256_pow2.csv"));
  ASSERT_TRUE(profile);
  const auto kernels = SelectKernels(*profile, {.precision = "FP32"});
  ASSERT_TRUE(kernels) << kernels.error().message;
  const auto count = std::ssize(kernels->kernels);
  for (const Bytes each : {8_MiB, 64_MiB}) {
    const WrRequest wr = {BatchSize(256), each, BatchPolicy::kPowerOfTwo};
    WrRequest wd = wr;
    wd.workspace_limit = each * count;
    const auto shared = SolveWr(*kernels, wr);
    const auto divided = SolveWd(*kernels, wd);
    ASSERT_TRUE(shared && divided);
    EXPECT_TRUE(divided->optimal);
    EXPECT_LT(divided->total_time, shared->total_time);
    EXPECT_LE(divided->total_workspace, wd.workspace_limit);
  }
}

}  // namespace
}  // namespace ucudnn
