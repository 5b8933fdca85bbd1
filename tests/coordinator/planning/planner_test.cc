#include "coordinator/planning/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/plan/prediction.h"
#include "proto/convert_plan.h"
#include "ucudnn/v1/types.pb.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using std::chrono_literals::operator""us;

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

JobRequest Request(std::int64_t batch, std::vector<std::string> kinds) {
  JobRequest request;
  request.network = "one";
  request.batch = BatchSize(batch);
  request.device_kinds = std::move(kinds);
  request.workspace_limit = 10_B;
  return request;
}

// All needed points: without workspace an image takes `us` microseconds; with
// workspace, one image at a time, a tenth less.
KindProfiles Measured(const Network& network, const JobRequest& request,
                      const std::map<std::string, std::int64_t>& us) {
  KindProfiles profiles;
  for (const Need& need : NeedsOf(network, request)) {
    MeasuredPoint point;
    point.batch = need.batch;
    point.algorithm.name = "PLAIN";
    point.error_ppt = 900'000;
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

Result<JobRequest> Parse(const v1::PlanRequest& request) {
  return FromProto(request).and_then(Canonical);
}

TEST(PlannerTest, FillsInDefaultsAndRefusesInvalidRequests) {
  v1::PlanRequest message;
  message.set_network("one");
  message.set_batch(8);
  message.set_workspace_limit_bytes(5);
  const JobRequest request = Parse(message).value();
  EXPECT_EQ(request.policy, BatchPolicy::kPowerOfTwo);
  EXPECT_EQ(request.precision, Precision::kFp32);
  EXPECT_EQ(request.layout, Layout::kNchw);
  EXPECT_EQ(request.KernelLimit(), 5_B);
  // A total limit replaces the limit of each kernel.
  message.set_total_workspace_bytes(7);
  const JobRequest total = Parse(message).value();
  EXPECT_EQ(total.KernelLimit(), 7_B);
  message.set_workspace_limit_bytes(6);
  EXPECT_EQ(Parse(message).value(), total);
  const auto refuse = [&](const std::string& why, auto change) {
    v1::PlanRequest bad = message;
    change(bad);
    const auto parsed = Parse(bad);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, Code::kInvalidArgument);
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
  const auto sizes = [](const JobRequest& request) {
    std::set<std::int64_t> found;
    for (const Need& need : NeedsOf(OneLayer(), request)) {
      found.insert(need.batch.count());
    }
    return found;
  };
  using Sizes = std::set<std::int64_t>;
  EXPECT_EQ(sizes(Request(12, {kFast})), (Sizes{1, 2, 4, 8, 12}));
  EXPECT_EQ(sizes(Request(12, {kFast, kFast})), (Sizes{1, 2, 4, 6}));
  EXPECT_EQ(sizes(Request(13, {kFast, kFast})), (Sizes{1, 2, 4, 6, 7}));
  EXPECT_EQ(sizes(Request(12, {kFast, kSlow})), (Sizes{1, 2, 4, 8, 12}));
  JobRequest undivided = Request(12, {kFast});
  undivided.policy = BatchPolicy::kUndivided;
  EXPECT_EQ(sizes(undivided), (Sizes{12}));
  JobRequest all = Request(4, {kFast});
  all.policy = BatchPolicy::kAll;
  EXPECT_EQ(sizes(all), (Sizes{1, 2, 3, 4}));
}

TEST(PlannerTest, NeedsOneAdaptiveMeasurementOfEachProblemAndLimit) {
  JobRequest request = Request(12, {kFast, kFast});
  request.policy = BatchPolicy::kAdaptive;
  request.workspace_limit = 3_MiB;
  const auto needs = NeedsOf(OneLayer(), request);
  ASSERT_EQ(needs.size(), 2U);  // forward and backward_filter
  EXPECT_EQ(needs[0].batch, BatchSize(6));
  EXPECT_EQ(ToString(needs[0].goal), "adaptive-3145728");
  // Each kernel may use all of a total.
  request.total_workspace = 4_MiB;
  EXPECT_EQ(ToString(NeedsOf(OneLayer(), request)[0].goal), "adaptive-4194304");
  // The shares of unlike ranks need measurements of their own.
  request.device_kinds = {kFast, kSlow};
  EXPECT_EQ(NeedsOf(OneLayer(), request).size(), 2U * 2 * 5);
}

TEST(PlannerTest, CountsNeedsWithoutMakingThem) {
  for (const BatchPolicy policy :
       {BatchPolicy::kAll, BatchPolicy::kPowerOfTwo, BatchPolicy::kUndivided,
        BatchPolicy::kAdaptive}) {
    for (const auto& kinds : std::vector<std::vector<std::string>>{
             {kFast}, {kFast, kFast}, {kFast, kSlow}}) {
      JobRequest request = Request(13, kinds);
      request.policy = policy;
      EXPECT_EQ(NeedCount(OneLayer(), request),
                static_cast<std::int64_t>(NeedsOf(OneLayer(), request).size()));
    }
  }
}

TEST(PlannerTest, DividesTheBatchOfAKernel) {
  const JobRequest request = Request(4, {kFast});
  const Network network = OneLayer();
  const JobPlan plan =
      MakePlan(network, request, Measured(network, request, {{kFast, 100}}))
          .value();
  EXPECT_EQ(plan.request, request);
  ASSERT_EQ(plan.ranks.size(), 1U);
  const WorkspacePlan& workspace = plan.ranks[0].workspace;
  ASSERT_EQ(workspace.kernels.size(), 2U);  // forward and backward_filter
  EXPECT_EQ(workspace.kernels[0].micro_batches[0].count, 4);
  EXPECT_EQ(workspace.kernels[0].micro_batches[0].algorithm.name, "QUICK");
  EXPECT_EQ(ToString(workspace.kernels[0].problem.value()),
            "forward-c1-h1w1-k1-r1s1-pad0x0-str1x1-dil1x1-g1-FP32-NCHW");
  EXPECT_EQ(plan.predicted, 2 * 4 * 90us);
  EXPECT_EQ(plan.undivided, 2 * 4 * 100us);
  EXPECT_TRUE(plan.optimal);
  EXPECT_TRUE(Validate(plan));
}

TEST(PlannerTest, GivesAFasterRankMoreImages) {
  const Network network = OneLayer();
  const JobRequest request = Request(12, {kFast, kSlow, kFast});
  const KindProfiles profiles =
      Measured(network, request, {{kFast, 100}, {kSlow, 200}});
  const JobPlan plan = MakePlan(network, request, profiles).value();
  EXPECT_EQ(plan.ranks[0].batch, BatchSize(5));
  EXPECT_EQ(plan.ranks[1].batch, BatchSize(2));
  EXPECT_EQ(plan.ranks[2].batch, BatchSize(5));
  EXPECT_DOUBLE_EQ(plan.ranks[1].weight, 2.0 / 12);
  EXPECT_EQ(plan.predicted, 2 * 5 * 90us);
  EXPECT_THAT(plan.ranks[1].reason, HasSubstr("before the slowest rank"));
}

TEST(PlannerTest, GivesExcludedRanksNothing) {
  const Network network = OneLayer();
  JobRequest request = Request(12, {kSlow, kFast, kSlow, kFast});
  request.exclude_ranks = {0, 2};
  for (const Need& need : NeedsOf(network, request)) {
    EXPECT_EQ(need.kind, kFast);
  }
  const JobPlan plan =
      MakePlan(network, request, Measured(network, request, {{kFast, 100}}))
          .value();
  EXPECT_EQ(plan.request, request);
  ASSERT_EQ(plan.ranks.size(), 4U);
  EXPECT_EQ(plan.ranks[0].batch, BatchSize(0));
  EXPECT_EQ(plan.ranks[1].batch, BatchSize(6));
  EXPECT_EQ(plan.ranks[2].batch, BatchSize(0));
  EXPECT_EQ(plan.ranks[2].device_kind, kSlow);
  EXPECT_EQ(plan.ranks[3].batch, BatchSize(6));
}

TEST(PlannerTest, MakesOnePlanForRanksThatAreAlike) {
  const Network network = OneLayer();
  const JobRequest request = Request(12, {kFast, kSlow, kFast, kSlow, kFast});
  const JobPlan plan =
      MakePlan(network, request,
               Measured(network, request, {{kFast, 100}, {kSlow, 200}}))
          .value();
  std::map<KindBatch, const WorkspacePlan*> plans;
  for (const RankPlan& rank : plan.ranks) {
    const auto [known, added] =
        plans.try_emplace({rank.device_kind, rank.batch}, &*rank.workspace);
    EXPECT_EQ(known->second, &*rank.workspace);
  }
  EXPECT_LT(plans.size(), plan.ranks.size());
}

TEST(PlannerTest, RefusesToExcludeWhatIsNotThere) {
  const auto refused = [](std::vector<std::int32_t> excluded) {
    v1::PlanRequest message;
    message.set_network("one");
    message.set_batch(8);
    message.add_device_kinds(kFast);
    message.add_device_kinds(kSlow);
    for (const std::int32_t rank : excluded) message.add_exclude_ranks(rank);
    const auto request = Parse(message);
    return request ? "" : request.error().message;
  };
  EXPECT_EQ(refused({1}), "");
  EXPECT_THAT(refused({2}), HasSubstr("exclude_ranks[0] is 2"));
  EXPECT_THAT(refused({1, 1}), HasSubstr("exclude_ranks[1] is 1"));
  EXPECT_THAT(refused({-1}), HasSubstr("exclude_ranks[0] is -1"));
  EXPECT_THAT(refused({0, 1}), HasSubstr("one must be left"));
}

TEST(PlannerTest, LeavesOutARankThatCannotHelp) {
  const Network network = OneLayer();
  const JobRequest request = Request(1, {kSlow, kFast});
  const JobPlan plan =
      MakePlan(network, request,
               Measured(network, request, {{kFast, 100}, {kSlow, 200}}))
          .value();
  EXPECT_EQ(plan.ranks[0].batch, BatchSize(0));
  EXPECT_EQ(plan.ranks[1].batch, BatchSize(1));
  EXPECT_THAT(plan.ranks[0].reason, HasSubstr("left out"));
}

// Ten bytes are all that one of the two kernels needs. The executor runs them
// one after another, so they are enough for both.
TEST(PlannerTest, LetsEachKernelUseTheWholeTotal) {
  const Network network = OneLayer();
  for (const auto& kinds : {std::vector<std::string>{kFast},
                            std::vector<std::string>{kFast, kSlow, kFast}}) {
    JobRequest each = Request(12, kinds);
    const KindProfiles profiles =
        Measured(network, each, {{kFast, 100}, {kSlow, 200}});
    JobRequest total = each;
    total.total_workspace = total.workspace_limit;
    total.workspace_limit = 0_B;
    const JobPlan plan = MakePlan(network, total, profiles).value();
    JobPlan expected = MakePlan(network, each, profiles).value();
    EXPECT_EQ(expected.ranks[0].workspace->total_workspace, 20_B);
    expected.request = total;
    for (RankPlan& rank : expected.ranks) {
      WorkspacePlan& workspace = rank.workspace.Own();
      for (KernelPlan& kernel : workspace.kernels) kernel.offset = 0_B;
      workspace.total_workspace = 10_B;
    }
    EXPECT_EQ(plan, expected);
    if (kinds.size() == 1) {
      EXPECT_LT(plan.predicted, plan.undivided.value());
    }
  }
}

TEST(PlannerTest, NamesTheSmallestLimitThatSuffices) {
  const Network network = OneLayer();
  JobRequest request = Request(1, {kFast});
  KindProfiles profiles = Measured(network, request, {{kFast, 100}});
  for (auto& [problem, points] : profiles[kFast]) {
    points.erase(points.begin());  // what needs no workspace
  }
  request.workspace_limit = 9_B;
  const auto plan = MakePlan(network, request, profiles);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(plan.error().message, HasSubstr("10"));
}

TEST(PlannerTest, WarnsIfARankWaitsForItsHost) {
  const Network network = OneLayer();
  JobRequest request = Request(9, {kFast, kSlow, kFast});
  KindProfiles profiles =
      Measured(network, request, {{kFast, 10}, {kSlow, 30}});
  const auto note = [&](const std::string& kind, Nanoseconds enqueue) {
    for (auto& [problem, points] : profiles[kind]) {
      for (MeasuredPoint& point : points) point.enqueue = enqueue;
    }
  };
  const auto reasons = [&] {
    return MakePlan(network, request, profiles).value().reasons;
  };
  EXPECT_THAT(reasons(), ElementsAre(kPredictionNote));
  note(kFast, std::chrono::microseconds(3));  // of 9 for each image
  note(kSlow, std::chrono::microseconds(2));
  EXPECT_THAT(reasons(), ElementsAre(kPredictionNote));
  const std::string before = InputsText(network, request, profiles);
  // Of 27 for the one image that the slow one gets.
  note(kSlow, std::chrono::microseconds(28));
  EXPECT_NE(InputsText(network, request, profiles), before);
  EXPECT_THAT(reasons(),
              ElementsAre(kPredictionNote,
                          AllOf(HasSubstr(kSlow), HasSubstr("the host"))));
}

TEST(PlannerTest, DistinguishesInputs) {
  const Network network = OneLayer();
  const JobRequest request = Request(4, {kFast});
  KindProfiles profiles = Measured(network, request, {{kFast, 100}});
  const std::string text = InputsText(network, request, profiles);
  EXPECT_EQ(InputsText(network, request, profiles), text);
  JobRequest other = request;
  other.workspace_limit = 11_B;
  EXPECT_NE(InputsText(network, other, profiles), text);
  EXPECT_NE(InputsText(network, request, profiles, kSolverVersion + 1), text);
  profiles[kFast].begin()->second[0].time += Nanoseconds(1);
  EXPECT_NE(InputsText(network, request, profiles), text);
}

// Iterations that need 1 MiB an image.
PlainMemory RoomFor(const JobRequest& request, std::int64_t fast,
                    std::int64_t slow) {
  PlainMemory memory;
  for (std::int64_t b = 0; b <= request.batch.count(); ++b) {
    memory.live.push_back(1_MiB * b);
  }
  // The kernels' workspace takes less than an image.
  memory.devices = {{kFast, 1_MiB * (fast + 1) - 1_B},
                    {kSlow, 1_MiB * (slow + 1) - 1_B}};
  return memory;
}

TEST(PlannerTest, ABoundOnErrorsIsThePlanOfTheFilteredProfile) {
  const Network network = OneLayer();
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 50; ++trial) {
    JobRequest request = Request(8, {kFast, kSlow});
    request.max_error = trial % 2 == 0 ? 1e-3 : kDefaultMaxError;
    KindProfiles all = Measured(network, request, {{kFast, 10}, {kSlow, 30}});
    KindProfiles admitted = all;
    for (auto& [kind, problems] : all) {
      const std::int64_t of_quick = random() % 2 == 0 ? 900'000 : 2'000'000'000;
      for (auto& [problem, points] : problems) {
        auto& kept = admitted[kind][problem];
        kept.clear();
        for (MeasuredPoint& point : points) {
          point.error_ppt =
              point.algorithm.name == "QUICK" ? of_quick : 900'000;
          if (point.error_ppt < 1'000'000'000) kept.push_back(point);
        }
      }
    }
    const auto bounded = MakePlan(network, request, all);
    ASSERT_TRUE(bounded) << bounded.error().message;
    EXPECT_EQ(*bounded, MakePlan(network, request, admitted));
    EXPECT_THAT(bounded->reasons,
                Not(Contains(HasSubstr("accuracy not measured"))));
  }
}

TEST(PlannerTest, SaysWhereAccuracyIsNotMeasuredOrNothingIsAccurate) {
  const Network network = OneLayer();
  JobRequest request = Request(8, {kFast});
  KindProfiles profiles = Measured(network, request, {{kFast, 10}});
  for (auto& [problem, points] : profiles[kFast]) {
    for (MeasuredPoint& point : points) point.error_ppt = 0;
  }
  const auto unknown = MakePlan(network, request, profiles);
  ASSERT_TRUE(unknown) << unknown.error().message;
  EXPECT_THAT(unknown->reasons,
              Contains(HasSubstr("accuracy not measured: 2 of 2 kernels")));
  for (auto& [problem, points] : profiles[kFast]) {
    for (MeasuredPoint& point : points) point.error_ppt = 900'000;
  }
  EXPECT_TRUE(MakePlan(network, request, profiles));
  request.max_error = 1e-7;
  const auto none = MakePlan(network, request, profiles);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(none.error().message,
              AllOf(HasSubstr("conv"), HasSubstr("9e-07")));
  request.policy = BatchPolicy::kAdaptive;
  EXPECT_EQ(NeedsOf(network, request)[0].goal.max_error, 1e-7);
}

TEST(PlannerTest, AKindNeverGetsMoreThanItHasRoomFor) {
  const Network network = OneLayer();
  JobRequest request = Request(12, {kFast, kSlow});
  request.policy = BatchPolicy::kAll;
  const auto profiles =
      Measured(network, request, {{kFast, 100}, {kSlow, 300}});
  const auto free = MakePlan(network, request, profiles);
  ASSERT_TRUE(free) << free.error().message;
  const std::int64_t batch = request.batch.count();
  for (std::int64_t room = 0; room <= batch; ++room) {
    const auto plan =
        MakePlan(network, request, profiles, RoomFor(request, room, batch));
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_LE(plan->ranks[0].batch, BatchSize(room));
    EXPECT_GE(plan->predicted, free->predicted);
    if (BatchSize(room) >= free->ranks[0].batch) {
      EXPECT_EQ(plan->predicted, free->predicted);
    }
    if (room < batch) {
      EXPECT_THAT(plan->reasons,
                  Contains(HasSubstr(
                      fmt::format("room for {} images on {}", room, kFast))));
    }
  }
  const auto none = MakePlan(network, request, profiles,
                             RoomFor(request, batch / 2 - 1, batch / 2 - 1));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(none.error().message,
              AllOf(HasSubstr(kFast), HasSubstr(kSlow), HasSubstr("MiB"),
                    HasSubstr("--memory-budget")));
}

TEST(PlannerTest, BlamesMemoryOnlyForWhatItBounds) {
  const Network network = OneLayer();
  JobRequest request = Request(2, {kFast});
  auto profiles = Measured(network, request, {{kFast, 100}});
  const PlainMemory room = RoomFor(request, 2, 2);
  for (auto& [problem, points] : profiles[kFast]) {
    std::erase_if(points, [](const MeasuredPoint& point) {
      return point.algorithm.name == "PLAIN";
    });
  }
  request.workspace_limit = 9_B;  // below all of them
  const auto none = MakePlan(network, request, profiles, room);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message,
              AllOf(HasSubstr("10"), Not(HasSubstr("room for"))));
}

TEST(PlannerTest, SaysWhyMemoryIsNotConsidered) {
  const Network network = OneLayer();
  const JobRequest request = Request(12, {kFast});
  PlainMemory memory;
  memory.unknown = "there is no device model of X";
  const auto plan = MakePlan(
      network, request, Measured(network, request, {{kFast, 100}}), memory);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(plan->reasons,
              Contains("memory not considered: there is no device "
                       "model of X"));
}

constexpr const char* kTasksProblem =
    "tasks-dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd-"
    "FP32-NCHW";

StepTasks TwoTasks() {
  return {.problem = kTasksProblem,
          .names = {"loss", "relu.forward"},
          .unknown = {}};
}

// What the other tasks need: so many microseconds, and as many an image.
void AddTasks(const JobRequest& request, const std::string& kind,
              std::int64_t us, KindProfiles* profiles) {
  for (const Need& need : NeedsOf(TwoTasks(), request)) {
    if (need.kind != kind) continue;
    MeasuredPoint point;
    point.batch = need.batch;
    point.algorithm.name = "loss";
    point.time = std::chrono::microseconds(us);
    (*profiles)[kind][need.problem].push_back(point);
    point.algorithm.name = "relu.forward";
    point.time *= need.batch.count();
    (*profiles)[kind][need.problem].push_back(point);
  }
}

Result<JobPlan> PlanWholeSteps(const JobRequest& request,
                               const KindProfiles& profiles) {
  return MakePlan(OneLayer(), request, profiles, {}, {}, TwoTasks());
}

TEST(PlannerTest, NeedsOtherTasksAtBatchesThatEncloseAllShares) {
  const auto batches = [](const JobRequest& request) {
    std::set<std::int64_t> found;
    for (const Need& need : NeedsOf(TwoTasks(), request)) {
      EXPECT_EQ(need.problem, kTasksProblem);
      EXPECT_FALSE(need.goal.adaptive);
      found.insert(need.batch.count());
    }
    return found;
  };
  using Batches = std::set<std::int64_t>;
  EXPECT_EQ(batches(Request(12, {kFast})), (Batches{12}));
  EXPECT_EQ(batches(Request(12, {kFast, kFast})), (Batches{1, 2, 4, 6}));
  EXPECT_EQ(batches(Request(12, {kFast, kSlow})), (Batches{1, 2, 4, 8, 12}));
  JobRequest memory = Request(12, {kFast});
  memory.memory.emplace();
  EXPECT_EQ(batches(memory), (Batches{1, 2, 4, 8, 12}));
  EXPECT_THAT(NeedsOf(StepTasks(), Request(12, {kFast})), IsEmpty());
}

TEST(PlannerTest, CountsWholeStepsWhereAllTasksAreMeasured) {
  const JobRequest request = Request(8, {kFast});
  KindProfiles profiles = Measured(OneLayer(), request, {{kFast, 100}});
  const auto before = PlanWholeSteps(request, profiles);
  ASSERT_TRUE(before) << before.error().message;
  EXPECT_FALSE(CountsWholeSteps(*before));
  EXPECT_THAT(
      before->reasons,
      Contains(AllOf(HasSubstr(kPredictionNote),
                     HasSubstr("not measured of " + std::string(kFast)))));
  AddTasks(request, kFast, 10, &profiles);
  const auto plan = PlanWholeSteps(request, profiles);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(CountsWholeSteps(*plan));
  const WorkspacePlan& workspace = plan->ranks[0].workspace;
  EXPECT_EQ(workspace.other_time, 90us);
  EXPECT_EQ(workspace.total_time,
            before->ranks[0].workspace->total_time + 90us);
  EXPECT_EQ(plan->predicted, before->predicted + 90us);
  EXPECT_EQ(plan->lower_bound, before->lower_bound + 90us);
  EXPECT_EQ(*plan->undivided, *before->undivided + 90us);
  EXPECT_EQ(plan->optimal, before->optimal);
  EXPECT_THAT(plan->reasons, Contains(AllOf(HasSubstr(kWholeStepsNote),
                                            HasSubstr("take 90.0 us of"))));
  EXPECT_NE(InputsText(OneLayer(), request, profiles),
            InputsText(OneLayer(), request,
                       Measured(OneLayer(), request, {{kFast, 100}})));
}

TEST(PlannerTest, SharesByWholeSteps) {
  const JobRequest request = Request(12, {kFast, kSlow});
  // Convolutions alone are alike; the other tasks of one take their time again.
  KindProfiles profiles =
      Measured(OneLayer(), request, {{kFast, 100}, {kSlow, 100}});
  const auto even = MakePlan(OneLayer(), request, profiles);
  ASSERT_TRUE(even) << even.error().message;
  EXPECT_EQ(even->ranks[0].batch, BatchSize(6));
  AddTasks(request, kFast, 1, &profiles);
  AddTasks(request, kSlow, 180, &profiles);
  const auto whole = PlanWholeSteps(request, profiles);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_GT(whole->ranks[0].batch, BatchSize(7));
  EXPECT_TRUE(CountsWholeSteps(*whole));
  for (const RankPlan& rank : whole->ranks) {
    EXPECT_GT(rank.workspace->other_time, 0us);
  }
}

TEST(PlannerTest, NeverMixesWholeStepsWithConvolutionsAlone) {
  const JobRequest request = Request(12, {kFast, kSlow});
  KindProfiles profiles =
      Measured(OneLayer(), request, {{kFast, 100}, {kSlow, 130}});
  AddTasks(request, kFast, 50, &profiles);
  const auto mixed = PlanWholeSteps(request, profiles);
  ASSERT_TRUE(mixed) << mixed.error().message;
  const auto plain = MakePlan(OneLayer(), request, profiles);
  EXPECT_EQ(mixed->ranks, plain->ranks);
  EXPECT_EQ(mixed->predicted, plain->predicted);
  EXPECT_THAT(mixed->reasons,
              Contains(HasSubstr("are not measured of " + std::string(kSlow) +
                                 " at 1 images")));
  // Of a kind that has no room for the largest, it does not lack.
  AddTasks(request, kSlow, 50, &profiles);
  std::erase_if(profiles[kSlow][kTasksProblem], [](const MeasuredPoint& point) {
    return point.batch > BatchSize(8);
  });
  EXPECT_FALSE(CountsWholeSteps(*PlanWholeSteps(request, profiles)));
  const auto fits = MakePlan(OneLayer(), request, profiles,
                             RoomFor(request, 12, 8), {}, TwoTasks());
  ASSERT_TRUE(fits) << fits.error().message;
  EXPECT_TRUE(CountsWholeSteps(*fits));
}

TEST(PlannerTest, CountsConvolutionsOnlyWhereNoShareIsMeasuredThatRanksGet) {
  const JobRequest request = Request(12, {kFast, kFast});
  KindProfiles profiles = Measured(OneLayer(), request, {{kFast, 100}});
  AddTasks(Request(2, {kFast, kFast}), kFast, 10, &profiles);
  const auto plan = PlanWholeSteps(request, profiles);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(CountsWholeSteps(*plan));
}

TEST(PlannerTest, GivesAlikeRanksSharesOfWholeSteps) {
  const JobRequest request = Request(13, {kFast, kFast});
  KindProfiles profiles = Measured(OneLayer(), request, {{kFast, 100}});
  AddTasks(request, kFast, 10, &profiles);
  const auto plan = PlanWholeSteps(request, profiles);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_TRUE(CountsWholeSteps(*plan));
  EXPECT_EQ(plan->ranks[0].batch + plan->ranks[1].batch, BatchSize(13));
  EXPECT_EQ(std::max(plan->ranks[0].batch, plan->ranks[1].batch), BatchSize(7));
}

}  // namespace
}  // namespace ucudnn
