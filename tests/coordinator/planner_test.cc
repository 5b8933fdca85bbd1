#include "coordinator/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kFast = "Fast/2u/1GiB/none-1.0";
constexpr const char* kSlow = "Slow/1u/1GiB/none-1.0";

Network OneLayer() {
  Network network;
  network.name = "one";
  ConvLayer& layer = network.layers.emplace_back();
  layer.name = "conv";
  layer.needs_input_gradient = false;
  return network;
}

PlanSpec Spec(std::int64_t batch, std::vector<std::string> kinds) {
  PlanSpec spec;
  spec.network = "one";
  spec.batch = BatchSize(batch);
  spec.kinds = std::move(kinds);
  spec.workspace_limit = 10_B;
  return spec;
}

// Every needed point, each image taking `us` microseconds, with no workspace;
// on top, one image at a time with workspace is a tenth faster.
KindProfiles Measured(const Network& network, const PlanSpec& spec,
                      const std::map<std::string, std::int64_t>& us) {
  KindProfiles profiles;
  for (const Need& need : NeedsOf(network, spec)) {
    MeasuredPoint point;
    point.batch = need.batch;
    point.algorithm.name = "PLAIN";
    point.time =
        std::chrono::microseconds(us.at(need.kind) * need.batch.count());
    auto& points = profiles[need.kind][need.problem];
    points.push_back(point);
    if (need.batch.count() == 1) {
      point.algorithm.name = "QUICK";
      point.workspace = 10_B;
      point.time = point.time * 9 / 10;
      points.push_back(point);
    }
  }
  return profiles;
}

TEST(PlannerTest, FillsInDefaultsAndRefusesNonsense) {
  v1::PlanRequest request;
  request.set_network("one");
  request.set_batch(8);
  const PlanSpec spec = ParsePlanRequest(request).value();
  EXPECT_EQ(spec.policy, BatchPolicy::kPowerOfTwo);
  EXPECT_EQ(spec.precision, Precision::kFp32);
  EXPECT_EQ(ToProto(spec).layout(), "NCHW");
  const auto refuse = [&](const std::string& why, auto change) {
    v1::PlanRequest bad = request;
    change(bad);
    const auto parsed = ParsePlanRequest(bad);
    ASSERT_FALSE(parsed);
    EXPECT_THAT(parsed.error().message, HasSubstr(why));
  };
  refuse("network is empty", [](auto& r) { r.clear_network(); });
  refuse("batch is 0; 1 to", [](auto& r) { r.set_batch(0); });
  refuse("batch is 16777217", [](auto& r) { r.set_batch(16'777'217); });
  refuse("workspace_limit_bytes is -1",
         [](auto& r) { r.set_workspace_limit_bytes(-1); });
  refuse("total_workspace_bytes is -1",
         [](auto& r) { r.set_total_workspace_bytes(-1); });
  refuse("batch_policy: 'half'", [](auto& r) { r.set_batch_policy("half"); });
  refuse("precision: 'FP8'", [](auto& r) { r.set_precision("FP8"); });
  refuse("layout: 'CHWN'", [](auto& r) { r.set_layout("CHWN"); });
}

TEST(PlannerTest, NeedsPowersOfTwoAndTheBatchOfEachRank) {
  const auto sizes = [](const PlanSpec& spec) {
    std::set<std::int64_t> found;
    for (const Need& need : NeedsOf(OneLayer(), spec)) {
      found.insert(need.batch.count());
    }
    return found;
  };
  using Sizes = std::set<std::int64_t>;
  EXPECT_EQ(sizes(Spec(12, {kFast})), (Sizes{1, 2, 4, 8, 12}));
  EXPECT_EQ(sizes(Spec(12, {kFast, kFast})), (Sizes{1, 2, 4, 6}));
  EXPECT_EQ(sizes(Spec(13, {kFast, kFast})), (Sizes{1, 2, 4, 6, 7}));
  EXPECT_EQ(sizes(Spec(12, {kFast, kSlow})), (Sizes{1, 2, 4, 8, 12}));
  PlanSpec undivided = Spec(12, {kFast});
  undivided.policy = BatchPolicy::kUndivided;
  EXPECT_EQ(sizes(undivided), (Sizes{12}));
  PlanSpec all = Spec(4, {kFast});
  all.policy = BatchPolicy::kAll;
  EXPECT_EQ(sizes(all), (Sizes{1, 2, 3, 4}));
}

TEST(PlannerTest, NeedsOneAdaptiveMeasurementOfEachProblemAndLimit) {
  PlanSpec spec = Spec(12, {kFast, kFast});
  spec.policy = BatchPolicy::kAdaptive;
  spec.workspace_limit = 3_MiB;
  const auto needs = NeedsOf(OneLayer(), spec);
  ASSERT_EQ(needs.size(), 2U);  // forward and backward_filter
  EXPECT_EQ(needs[0].batch, BatchSize(6));
  EXPECT_EQ(ToString(needs[0].goal), "adaptive-3145728");
  // Each kernel may get any part of a workspace that is divided.
  spec.divide_workspace = true;
  EXPECT_EQ(ToString(NeedsOf(OneLayer(), spec)[0].goal), "adaptive");
  // Unlike ranks may get parts that are to be measured for themselves.
  spec.kinds = {kFast, kSlow};
  EXPECT_EQ(NeedsOf(OneLayer(), spec).size(), 2U * 2 * 5);
}

TEST(PlannerTest, DividesTheBatchOfAKernel) {
  const PlanSpec spec = Spec(4, {kFast});
  const Network network = OneLayer();
  const v1::Plan plan =
      MakePlan(network, spec, Measured(network, spec, {{kFast, 100}})).value();
  ASSERT_EQ(plan.ranks_size(), 1);
  const v1::WorkspacePlan& workspace = plan.ranks(0).workspace();
  ASSERT_EQ(workspace.kernels_size(), 2);  // forward and backward_filter
  EXPECT_EQ(workspace.kernels(0).micro_batches(0).count(), 4);
  EXPECT_EQ(workspace.kernels(0).micro_batches(0).algorithm(), "QUICK");
  EXPECT_EQ(workspace.kernels(0).problem(),
            "forward-c1-h1w1-k1-r1s1-pad0x0-str1x1-dil1x1-g1-FP32-NCHW");
  EXPECT_EQ(plan.predicted_ns(), 2 * 4 * 90'000);
  EXPECT_EQ(plan.undivided_ns(), 2 * 4 * 100'000);
  EXPECT_TRUE(plan.optimal());
}

TEST(PlannerTest, GivesAFasterRankMoreImages) {
  const Network network = OneLayer();
  PlanSpec spec = Spec(12, {kFast, kSlow, kFast});
  const KindProfiles profiles =
      Measured(network, spec, {{kFast, 100}, {kSlow, 200}});
  const v1::Plan plan = MakePlan(network, spec, profiles).value();
  EXPECT_EQ(
      plan.ranks(0).batch() + plan.ranks(1).batch() + plan.ranks(2).batch(),
      12);
  EXPECT_EQ(plan.ranks(1).batch(), 2);
  EXPECT_EQ(plan.ranks(0).batch(), 5);
  EXPECT_DOUBLE_EQ(plan.ranks(1).weight(), 2.0 / 12);
  EXPECT_EQ(plan.predicted_ns(), 2 * 5 * 90'000);
  EXPECT_THAT(plan.ranks(1).reason(), HasSubstr("before the slowest rank"));
}

TEST(PlannerTest, LeavesOutARankThatCannotHelp) {
  const Network network = OneLayer();
  PlanSpec spec = Spec(1, {kSlow, kFast});
  const v1::Plan plan =
      MakePlan(network, spec,
               Measured(network, spec, {{kFast, 100}, {kSlow, 200}}))
          .value();
  EXPECT_EQ(plan.ranks(0).batch(), 0);
  EXPECT_EQ(plan.ranks(1).batch(), 1);
  EXPECT_THAT(plan.ranks(0).reason(), HasSubstr("left out"));
}

TEST(PlannerTest, DividesOneLimitAmongAllKernels) {
  const Network network = OneLayer();
  PlanSpec spec = Spec(4, {kFast});
  spec.divide_workspace = true;
  const KindProfiles profiles = Measured(network, spec, {{kFast, 100}});
  // Ten bytes are enough for one of the two kernels, twenty for both.
  for (const auto& [limit, quick] : {std::pair(10_B, 1), {20_B, 2}}) {
    spec.workspace_limit = limit;
    const v1::Plan plan = MakePlan(network, spec, profiles).value();
    EXPECT_EQ(plan.request().total_workspace_bytes(), limit.count());
    EXPECT_EQ(plan.request().workspace_limit_bytes(), 0);
    EXPECT_EQ(plan.predicted_ns(), 2 * 4 * 100'000 - quick * 4 * 10'000);
    EXPECT_TRUE(plan.optimal());
    std::int64_t used = 0;
    for (const auto& kernel : plan.ranks(0).workspace().kernels()) {
      ASSERT_TRUE(kernel.has_offset_bytes());
      used += kernel.workspace_bytes();
    }
    EXPECT_EQ(used, quick * 10);
  }
}

TEST(PlannerTest, SharesTheBatchOfRanksThatDivideTheirWorkspace) {
  const Network network = OneLayer();
  PlanSpec spec = Spec(12, {kFast, kSlow, kFast});
  spec.divide_workspace = true;
  spec.workspace_limit = 20_B;
  const KindProfiles profiles =
      Measured(network, spec, {{kFast, 100}, {kSlow, 200}});
  const v1::Plan plan = MakePlan(network, spec, profiles).value();
  EXPECT_EQ(plan.ranks(1).batch(), 2);
  EXPECT_EQ(plan.ranks(0).batch() + plan.ranks(2).batch(), 10);
  EXPECT_EQ(plan.predicted_ns(), 2 * 5 * 90'000);
}

TEST(PlannerTest, NamesTheSmallestLimitThatWouldDo) {
  const Network network = OneLayer();
  PlanSpec spec = Spec(1, {kFast});
  KindProfiles profiles = Measured(network, spec, {{kFast, 100}});
  for (auto& [problem, points] : profiles[kFast]) {
    points.erase(points.begin());  // what needs no workspace
  }
  spec.workspace_limit = 9_B;
  const auto plan = MakePlan(network, spec, profiles);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(plan.error().message, HasSubstr("10"));
}

TEST(PlannerTest, TellsWhereARankWaitsForItsHost) {
  const Network network = OneLayer();
  PlanSpec spec = Spec(9, {kFast, kSlow, kFast});
  KindProfiles profiles = Measured(network, spec, {{kFast, 10}, {kSlow, 30}});
  const auto note = [&](const std::string& kind, Nanoseconds enqueue) {
    for (auto& [problem, points] : profiles[kind]) {
      for (MeasuredPoint& point : points) point.enqueue = enqueue;
    }
  };
  const auto reasons = [&] {
    const auto plan = MakePlan(network, spec, profiles);
    return std::vector<std::string>(plan->reasons().begin(),
                                    plan->reasons().end());
  };
  EXPECT_THAT(reasons(), IsEmpty());
  note(kFast, std::chrono::microseconds(3));  // of 9 for each image
  note(kSlow, std::chrono::microseconds(2));
  EXPECT_THAT(reasons(), IsEmpty());
  const std::string before = InputsText(network, spec, profiles);
  // Of 27 for the one image that the slow one gets.
  note(kSlow, std::chrono::microseconds(28));
  EXPECT_NE(InputsText(network, spec, profiles), before);
  EXPECT_THAT(reasons(),
              ElementsAre(AllOf(HasSubstr(kSlow), HasSubstr("the host"))));
}

TEST(PlannerTest, TellsInputsApart) {
  const Network network = OneLayer();
  const PlanSpec spec = Spec(4, {kFast});
  KindProfiles profiles = Measured(network, spec, {{kFast, 100}});
  const std::string text = InputsText(network, spec, profiles);
  EXPECT_EQ(InputsText(network, spec, profiles), text);
  PlanSpec other = spec;
  other.workspace_limit = 11_B;
  EXPECT_NE(InputsText(network, other, profiles), text);
  profiles[kFast].begin()->second[0].time += Nanoseconds(1);
  EXPECT_NE(InputsText(network, spec, profiles), text);
}

}  // namespace
}  // namespace ucudnn
