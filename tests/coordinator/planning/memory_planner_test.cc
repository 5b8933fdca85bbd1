#include "coordinator/planning/memory_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/onnx/network_file.h"
#include "base/service/call.h"
#include "base/training/build.h"
#include "base/training/costs.h"
#include "solver/memory/policies.h"

namespace ucudnn {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using Json = nlohmann::ordered_json;

constexpr const char* kFastKind = "Fast/2u/1GiB/none-1.0";
constexpr const char* kSlowKind = "Slow/1u/1GiB/none-1.0";
constexpr milliseconds kTime{30'000};

NetworkRecord Chain() {
  NetworkRecord network;
  network.name = "chain";
  network.source =
      "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
      "conv1,3,32,32,64,3,3,1,1,1,1,1\n"
      "conv2,64,32,32,64,3,3,1,1,1,1,1\n"
      "conv3,64,16,16,64,3,3,1,1,1,1,1\n";
  network.hash = "h";
  return network;
}

JobRequest Request(std::int64_t batch, std::size_t ranks, Bytes budget) {
  JobRequest request;
  request.network = "chain";
  request.batch = BatchSize(batch);
  request.device_kinds.assign(ranks, kFastKind);
  request.memory.emplace().budgets = {budget};
  return request;
}

DeviceModels Models() {
  DeviceModels models;
  models[kFastKind] = DeviceModelPreset("K40").value();
  DeviceModel& slow = models[kSlowKind] = models[kFastKind];
  slow.arithmetic.fp32 /= 2;
  slow.memory_rate /= 2;
  return models;
}

Result<JobPlan> Make(const JobRequest& request,
                     const KindProfiles& profiles = {}) {
  return MakeMemoryPlans(Chain(), request, profiles, Models(), kTime);
}

Json Body(const JobPlan& plan, std::size_t i = 0) {
  return Json::parse(plan.memory_plans.at(i).plan);
}

TEST(MemoryPlannerTest, PlansAnIterationWithinTheBudget) {
  const auto plan = Make(Request(32, 1, 20_MiB));
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_THAT(plan->ranks, SizeIs(1));
  ASSERT_THAT(plan->memory_plans, SizeIs(1));
  const Json body = Body(*plan);
  EXPECT_EQ(body["policy"], "best");
  EXPECT_EQ(body["budget_bytes"], (20_MiB).count());
  EXPECT_LE(body["peak_bytes"], (20_MiB).count());
  EXPECT_EQ(body["time_us"], Microseconds(plan->predicted));
  EXPECT_EQ(body["lower_bound_us"], Microseconds(plan->lower_bound));
  EXPECT_EQ(body["graph"]["device"]["name"], "K40");
  EXPECT_EQ(plan->ranks[0].workspace->total_time, plan->predicted);
  EXPECT_TRUE(Validate(*plan));
}

TEST(MemoryPlannerTest, TakesTheDevicesMemoryUnlessTheRequestNamesABudget) {
  const auto plan = Make(Request(8, 1, Bytes(0)));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(Body(*plan)["budget_bytes"], Models()[kFastKind].memory.count());
}

TEST(MemoryPlannerTest, MakesOnePlanForEachKindBudgetAndShare) {
  JobRequest request = Request(11, 4, 20_MiB);
  request.device_kinds[3] = kSlowKind;
  request.memory->budgets = {20_MiB, 20_MiB, 2_MiB, 20_MiB};
  const auto plan = Make(request);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_TRUE(Validate(*plan)) << Validate(*plan).error().message;
  std::set<std::tuple<std::string, BatchSize, Bytes>> places;
  BatchSize sum;
  for (std::size_t r = 0; r < 4; ++r) {
    const RankPlan& rank = plan->ranks[r];
    EXPECT_EQ(rank.weight, static_cast<double>(rank.batch.count()) / 11);
    sum = sum + rank.batch;
    if (rank.batch == BatchSize(0)) continue;
    ASSERT_TRUE(rank.memory);
    EXPECT_EQ(rank.memory->budget, request.memory->BudgetOf(r));
    EXPECT_LE(rank.memory->peak, rank.memory->budget);
    places.emplace(rank.device_kind, rank.batch, rank.memory->budget);
    const DeviceMemoryPlan* const memory = MemoryPlanOf(*plan, r);
    ASSERT_NE(memory, nullptr);
    const Json body = Json::parse(memory->plan);
    EXPECT_EQ(body["batch"], rank.batch.count());
    EXPECT_EQ(body["budget_bytes"], rank.memory->budget.count());
    EXPECT_EQ(body["peak_bytes"], rank.memory->peak.count());
    EXPECT_EQ(body["time_us"], Microseconds(rank.workspace->total_time));
    EXPECT_FALSE(rank.reason.empty());
  }
  EXPECT_EQ(sum, BatchSize(11));
  EXPECT_THAT(plan->memory_plans, SizeIs(places.size()));
  EXPECT_EQ(plan->ranks[0].batch, plan->ranks[1].batch);
  EXPECT_LT(plan->ranks[3].batch, plan->ranks[0].batch);
}

// The time of a policy's plan for so many images, as the planner promises it.
std::optional<Nanoseconds> TimeOf(const NetworkRecord& network,
                                  const JobRequest& request, std::size_t rank,
                                  BatchSize batch) {
  const Graph graph =
      ParseGraph(network.source, network.name, batch, network.name).value();
  TrainingOptions options;
  options.running_statistics = true;
  options.updates_at_end = request.device_kinds.size() > 1;
  TrainingGraph training = BuildTrainingGraph(graph, options).value();
  EXPECT_TRUE(SetDevice(Models()[request.device_kinds[rank]], &training));
  MemoryRequest memory;
  memory.budget = request.memory->BudgetOf(rank);
  memory.recompute = request.memory->recompute;
  const auto plan = PlanMemory(
      training, memory, *FindMemoryPolicy(request.memory->policy).value());
  if (!plan) return std::nullopt;
  return plan->time;
}

// The least time of the slowest rank over all shares.
std::optional<Nanoseconds> BruteForce(const NetworkRecord& network,
                                      const JobRequest& request) {
  const auto batch = static_cast<std::size_t>(request.batch.count());
  // The least time of the ranks so far, by the images that they have.
  std::vector<std::optional<Nanoseconds>> least(batch + 1);
  least[0] = Nanoseconds(0);
  for (std::size_t r = 0; r < request.device_kinds.size(); ++r) {
    auto with = least;  // a rank may be left out
    for (std::size_t b = 1; b <= batch; ++b) {
      const auto time =
          TimeOf(network, request, r, BatchSize(static_cast<std::int64_t>(b)));
      for (std::size_t before = 0; time && before + b <= batch; ++before) {
        if (!least[before]) continue;
        auto& best = with[before + b];
        const Nanoseconds slowest = std::max(*least[before], *time);
        best = best ? std::min(*best, slowest) : slowest;
      }
    }
    least = std::move(with);
  }
  return least[batch];
}

TEST(MemoryPlannerTest, NoSharesOfUnlikeKindsAndBudgetsAreFaster) {
  NetworkRecord network;
  network.name = "chain";
  network.hash = "h";
  network.source =
      "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
      "conv1,3,16,16,16,3,3,1,1,1,1,1\n"
      "conv2,16,16,16,16,3,3,1,1,1,1,1\n";
  std::mt19937 random(7);
  const auto up_to = [&](int most) {
    return std::uniform_int_distribution(1, most)(random);
  };
  int planned = 0;
  int unlike = 0;
  for (int trial = 0; trial < 8; ++trial) {
    JobRequest request = Request(4 + up_to(4), 2 + trial % 2, 1_MiB);
    request.memory->budgets.clear();
    for (std::string& kind : request.device_kinds) {
      kind = up_to(2) == 1 ? kFastKind : kSlowKind;
      request.memory->budgets.push_back(40_KiB * up_to(8));
    }
    const char* policies[] = {"vdnn-ext", "modnn", "best", "baseline"};
    request.memory->policy = policies[trial % 4];
    request.memory->recompute = trial % 4 == 2;
    const auto expected = BruteForce(network, request);
    const auto plan = MakeMemoryPlans(network, request, {}, Models(), kTime);
    ASSERT_EQ(plan.has_value(), expected.has_value()) << trial;
    if (!plan) continue;
    ++planned;
    EXPECT_EQ(plan->predicted, *expected) << trial;
    EXPECT_LE(plan->lower_bound, *expected) << trial;
    EXPECT_FALSE(plan->cut_off);
    Nanoseconds slowest{0};
    for (std::size_t r = 0; r < plan->ranks.size(); ++r) {
      const RankPlan& rank = plan->ranks[r];
      if (rank.batch == BatchSize(0)) continue;
      slowest = std::max(slowest, rank.workspace->total_time);
      EXPECT_EQ(TimeOf(network, request, r, rank.batch),
                rank.workspace->total_time);
      unlike += rank.batch == plan->ranks[0].batch ? 0 : 1;
    }
    EXPECT_EQ(slowest, plan->predicted);
  }
  EXPECT_GT(planned, 4);
  EXPECT_GT(unlike, 2);
}

// The mini-batch of an iteration decides whether a filter's gradient adds to
// what is there, and a share is a mini-batch of its own.
TEST(MemoryPlannerTest, AShareTakesWhatItWouldTakeAlone) {
  const std::string problem =
      "backward_filter-c64-h32w32-k64-r3s3-pad1x1-str1x1-dil1x1-g1-FP32-NCHW";
  KindProfiles profiles;
  for (const int batch : {4, 8}) {
    MeasuredPoint point;
    point.batch = BatchSize(batch);
    point.algorithm.name = "GEMM";
    point.time = std::chrono::milliseconds(batch);
    point.adding = std::chrono::milliseconds(10 * batch);
    profiles[kFastKind][problem].push_back(point);
  }
  JobRequest request = Request(8, 2, 1_GiB);
  request.memory->policy = "baseline";
  const auto shared = Make(request, profiles);
  request.batch = BatchSize(4);
  request.device_kinds.pop_back();
  const auto alone = Make(request, profiles);
  ASSERT_TRUE(shared) << shared.error().message;
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_EQ(shared->ranks[0].batch, BatchSize(4));
  EXPECT_EQ(shared->predicted, alone->predicted);
}

TEST(MemoryPlannerTest, LeavesOutRanksWithoutAnImage) {
  const auto plan = Make(Request(1, 2, 20_MiB));
  ASSERT_TRUE(plan) << plan.error().message;
  const bool first = plan->ranks[0].batch == BatchSize(1);
  const RankPlan& out = plan->ranks[first ? 1 : 0];
  EXPECT_EQ(out.batch, BatchSize(0));
  EXPECT_FALSE(out.memory);
  EXPECT_THAT(out.reason, HasSubstr("left out"));
  EXPECT_THAT(plan->memory_plans, SizeIs(1));
}

TEST(MemoryPlannerTest, GivesExcludedRanksNothing) {
  JobRequest request = Request(8, 3, 20_MiB);
  request.exclude_ranks = {1};
  // The budget of a rank that is excluded does not matter.
  request.memory->budgets = {20_MiB, 1_B, 10_MiB};
  const auto plan = Make(request);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_THAT(plan->ranks, SizeIs(3));
  EXPECT_EQ(plan->ranks[1].batch, BatchSize(0));
  EXPECT_EQ(plan->ranks[1].reason, "excluded by the request");
  EXPECT_EQ(plan->ranks[0].batch.count() + plan->ranks[2].batch.count(), 8);
  EXPECT_GT(plan->ranks[2].batch, BatchSize(0));
}

TEST(MemoryPlannerTest, IsFastForHundredsOfRanks) {
  JobRequest request = Request(2048, 512, 20_MiB);
  request.memory->policy = "modnn";
  for (std::size_t r = 0; r < 512; r += 2) {
    request.device_kinds[r] = kSlowKind;
  }
  request.memory->budgets.assign(512, 20_MiB);
  for (std::size_t r = 0; r < 512; r += 3) {
    request.memory->budgets[r] = 1_MiB;
  }
  const auto plan = Make(request);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->cut_off);
  BatchSize sum;
  for (const RankPlan& rank : plan->ranks) sum = sum + rank.batch;
  EXPECT_EQ(sum, BatchSize(2048));
}

TEST(MemoryPlannerTest, CountsTheMomentum) {
  JobRequest request = Request(8, 1, 20_MiB);
  const auto without = Make(request);
  request.memory->momentum = true;
  const auto with = Make(request);
  ASSERT_TRUE(without) << without.error().message;
  ASSERT_TRUE(with) << with.error().message;
  EXPECT_THAT(with->memory_plans[0].plan, HasSubstr("conv1.V"));
  EXPECT_GT(with->ranks[0].memory->peak, without->ranks[0].memory->peak);
}

TEST(MemoryPlannerTest, UpdatesFollowTheBackwardPassOfSeveralRanks) {
  for (const std::size_t ranks : {1U, 2U}) {
    const auto plan = Make(Request(8, ranks, 20_MiB));
    ASSERT_TRUE(plan) << plan.error().message;
    const Json body = Body(*plan);
    std::string kinds;
    for (const Json& task : body["graph"]["tasks"]) {
      kinds += task["kind"] == "update" ? 'u' : '.';
    }
    EXPECT_EQ(kinds.ends_with("uuu"), ranks == 2) << kinds;
  }
}

TEST(MemoryPlannerTest, RefusesBudgetsThatADeviceDoesNotHave) {
  JobRequest request = Request(8, 2, 1_MiB);
  request.memory->budgets = {1_MiB, 100_GiB};
  const auto plan = Make(request);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
  EXPECT_THAT(plan.error().message,
              AllOf(HasSubstr("rank 1 is 100GiB"), HasSubstr(kFastKind)));
}

TEST(MemoryPlannerTest, UsesMeasuredConvolutions) {
  JobRequest request = Request(4, 1, 100_MiB);
  request.memory->policy = "baseline";
  KindProfiles profiles;
  MeasuredPoint point;
  point.batch = BatchSize(4);
  point.algorithm.name = "SLOW";
  point.time = std::chrono::seconds(1);
  const std::string problem =
      "forward-c64-h32w32-k64-r3s3-pad1x1-str1x1-dil1x1-g1-FP32-NCHW";
  ASSERT_TRUE(ParseConvProblem(problem));
  const auto before = Make(request);
  profiles[kFastKind][problem] = {point};
  const auto after = Make(request, profiles);
  ASSERT_TRUE(before) << before.error().message;
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_LT(before->predicted, std::chrono::seconds(1));
  EXPECT_GT(after->predicted, std::chrono::seconds(1));
  EXPECT_THAT(after->memory_plans[0].plan, HasSubstr("SLOW"));
  EXPECT_THAT(after->reasons,
              Contains(HasSubstr("accuracy not measured: 1 of 1 kernels")));
  profiles[kFastKind][problem][0].error_ppt = 900'000;
  const auto known = Make(request, profiles);
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_THAT(known->reasons,
              Not(Contains(HasSubstr("accuracy not measured"))));
}

TEST(MemoryPlannerTest, NamesTheBudgetThatWouldDo) {
  const auto plan = Make(Request(32, 1, 100_B));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(plan.error().message, HasSubstr("32 images on Fast/2u"));
  EXPECT_THAT(plan.error().message, HasSubstr("MiB"));
  EXPECT_TRUE(plan.error().least);

  JobRequest two = Request(32, 2, 100_B);
  two.memory->budgets[0] = 200_KiB;
  const auto none = Make(two);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kFailedPrecondition);
}

TEST(MemoryPlannerTest, EndsWhenNobodyWaitsForIt) {
  const Call call([asked = 0]() mutable -> Status {
    if (++asked == 1) return {};
    return Fail(Code::kCancelled, "the client ended the call");
  });
  NetworkRecord deep = Chain();
  for (int i = 4; i < 40; ++i) {
    deep.source += fmt::format("conv{},64,16,16,64,3,3,1,1,1,1,1\n", i);
  }
  JobRequest request = Request(512, 1, 300_MiB);
  request.memory->recompute = true;
  request.memory->offload_weights = true;
  const auto plan =
      MakeMemoryPlans(deep, request, {}, Models(), std::chrono::hours(1));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kCancelled);
}

TEST(MemoryPlannerTest, ReturnsTheBestPlanWhenItsTimeIsUp) {
  const auto plan = MakeMemoryPlans(Chain(), Request(512, 1, 12_MiB), {},
                                    Models(), milliseconds(0));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_LE(Body(*plan)["peak_bytes"], (12_MiB).count());
  EXPECT_TRUE(plan->cut_off);
  EXPECT_EQ(Body(*plan)["cut_off"], true);
  EXPECT_THAT(plan->reasons, Contains(AllOf(HasSubstr("was cut off after 0"),
                                            HasSubstr("the bound is"))));
  EXPECT_LE(plan->lower_bound, plan->predicted);
}

TEST(MemoryPlannerTest, IsNotCutOffIfTheSearchEndsByItself) {
  const auto plan = Make(Request(32, 1, 20_MiB));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->cut_off);
  EXPECT_THAT(plan->reasons,
              Contains(HasSubstr("no shares are faster under memory plans of "
                                 "policy best")));
}

TEST(MemoryPlannerTest, RefusesWhatItCannotPlan) {
  JobRequest request = Request(8, 2, 1_GiB);
  EXPECT_TRUE(CheckMemoryRequest(request));
  request.memory->policy = "all";
  EXPECT_EQ(CheckMemoryRequest(request).error().code, Code::kInvalidArgument);
  EXPECT_THAT(CheckMemoryRequest(request).error().message,
              HasSubstr("memory.policy: "));

  NetworkRecord branched = Chain();
  branched.source += "conv4,3,16,16,64,3,3,1,1,1,1,1\n";
  const auto plan =
      MakeMemoryPlans(branched, Request(8, 1, 1_GiB), {}, Models(), kTime);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
  EXPECT_THAT(plan.error().message, HasSubstr("conv4"));
}

// The tasks of the chain that are no convolutions.
StepTasks TasksOfChain() {
  const NetworkRecord chain = Chain();
  const Graph graph =
      ParseGraph(chain.source, "chain", BatchSize(1), "test").value();
  const TrainingGraph training = BuildTrainingGraph(graph, {}).value();
  StepTasks tasks;
  tasks.problem = "tasks-" + std::string(64, 'c') + "-FP32-NCHW";
  for (const Task& task : training.tasks) {
    if (!task.work.conv) tasks.names.insert(task.name);
  }
  return tasks;
}

// Each of them takes `time` at the batch.
KindProfiles TasksMeasured(
    const JobRequest& request,
    const std::function<Nanoseconds(const std::string&, BatchSize)>& time) {
  KindProfiles profiles;
  for (const Need& need : NeedsOf(TasksOfChain(), request)) {
    for (const std::string& name : TasksOfChain().names) {
      MeasuredPoint point;
      point.batch = need.batch;
      point.algorithm.name = name;
      point.time = time(name, need.batch);
      profiles[need.kind][need.problem].push_back(point);
    }
  }
  return profiles;
}

Result<JobPlan> MakeMeasured(const JobRequest& request,
                             const KindProfiles& profiles) {
  return MakeMemoryPlans(Chain(), request, profiles, Models(), kTime,
                         TasksOfChain());
}

TEST(MemoryPlannerTest, TakesMeasuredTimesOfTasksOtherThanConvolutions) {
  JobRequest request = Request(6, 1, 1_GiB);
  request.memory->policy = "baseline";
  const auto at = [](Nanoseconds each) {
    return [each](const std::string&, BatchSize) { return each; };
  };
  const auto fast =
      MakeMeasured(request, TasksMeasured(request, at(Nanoseconds(1'000))));
  const auto slow =
      MakeMeasured(request, TasksMeasured(request, at(Nanoseconds(5'000))));
  ASSERT_TRUE(fast) << fast.error().message;
  ASSERT_TRUE(slow) << slow.error().message;
  const auto tasks = static_cast<std::int64_t>(TasksOfChain().names.size());
  EXPECT_GT(tasks, 8);
  EXPECT_EQ(slow->predicted - fast->predicted, Nanoseconds(4'000) * tasks);
  EXPECT_THAT(fast->reasons, Not(Contains(HasSubstr("estimates"))));

  // One that was not measured everywhere leaves all to the estimates.
  KindProfiles partly = TasksMeasured(request, at(Nanoseconds(1'000)));
  auto& points = partly[kFastKind][TasksOfChain().problem];
  points.pop_back();
  const auto estimated = MakeMeasured(request, partly);
  ASSERT_TRUE(estimated) << estimated.error().message;
  EXPECT_EQ(estimated->predicted, Make(request)->predicted);
  EXPECT_THAT(estimated->reasons,
              Contains(HasSubstr("what the device model of " +
                                 std::string(kFastKind) + " estimates")));
}

TEST(MemoryPlannerTest, AddsWhatConvolutionsDoBeside) {
  JobRequest request = Request(4, 1, 1_GiB);
  request.memory->policy = "baseline";
  KindProfiles profiles = TasksMeasured(
      request,
      [](const std::string&, BatchSize) { return Nanoseconds(1'000); });
  MeasuredPoint point;
  point.batch = BatchSize(4);
  point.algorithm.name = "GEMM";
  point.time = std::chrono::seconds(1);
  profiles[kFastKind]
          ["forward-c64-h32w32-k64-r3s3-pad1x1-str1x1-dil1x1-g1-"
           "FP32-NCHW"] = {point};
  const auto alone = MakeMeasured(request, profiles);
  point.algorithm.name = "conv2.forward";
  point.time = Nanoseconds(7'000);
  profiles[kFastKind][TasksOfChain().problem].push_back(point);
  const auto with_bias = MakeMeasured(request, profiles);
  ASSERT_TRUE(alone && with_bias);
  EXPECT_EQ(with_bias->predicted - alone->predicted, Nanoseconds(7'000));
}

// Times that rounds of fewer images may beat, or not: solvers check themselves
// that no plan beats their bounds.
TEST(MemoryPlannerTest, BoundsTasksWhateverTheirTimesByBatch) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 12; ++trial) {
    JobRequest request = Request(8, trial % 2 == 0 ? 1 : 2, 16_MiB);
    if (trial % 2 != 0) request.device_kinds[1] = kSlowKind;
    const KindProfiles profiles =
        TasksMeasured(request, [&](const std::string&, BatchSize) {
          return Nanoseconds(1'000 + random() % 1'000'000);
        });
    const auto plan = MakeMeasured(request, profiles);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_LE(plan->lower_bound, plan->predicted);
    EXPECT_GT(plan->lower_bound, Nanoseconds(0));
  }
}

TEST(MemoryPlannerTest, KeysPlansByNetworkFileAndDeviceModel) {
  const std::string text = MemoryInputsText(Chain(), Models());
  EXPECT_EQ(MemoryInputsText(Chain(), Models()), text);
  NetworkRecord other = Chain();
  other.hash = "other";
  EXPECT_NE(MemoryInputsText(other, Models()), text);
  DeviceModels faster = Models();
  faster[kFastKind].h2d_rate *= 2;
  EXPECT_NE(MemoryInputsText(Chain(), faster), text);
  Network network;
  JobRequest request = Request(8, 1, 1_GiB);
  const std::string of_request = InputsText(network, request, {});
  request.memory->recompute = true;
  EXPECT_NE(InputsText(network, request, {}), of_request);
}

}  // namespace
}  // namespace ucudnn
