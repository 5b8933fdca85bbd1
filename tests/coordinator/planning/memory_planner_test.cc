#include "coordinator/planning/memory_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/service/call.h"

namespace ucudnn {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Json = nlohmann::ordered_json;

constexpr const char* kFastKind = "Fast/2u/1GiB/none-1.0";
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
  request.memory.emplace().budget = budget;
  return request;
}

DeviceModels Models() {
  DeviceModels models;
  models[kFastKind] = DeviceModelPreset("K40").value();
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

TEST(MemoryPlannerTest, MakesOnePlanForEachSizeOfShare) {
  const auto plan = Make(Request(10, 4, 20_MiB));
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_THAT(plan->ranks, SizeIs(4));
  EXPECT_EQ(plan->ranks[0].batch, BatchSize(3));
  EXPECT_EQ(plan->ranks[3].batch, BatchSize(2));
  EXPECT_EQ(plan->ranks[3].weight, 0.2);
  ASSERT_THAT(plan->memory_plans, SizeIs(2));
  EXPECT_EQ(plan->memory_plans[0].batch, BatchSize(3));
  EXPECT_EQ(Body(*plan, 1)["batch"], 2);
}

TEST(MemoryPlannerTest, LeavesOutRanksWithoutAnImage) {
  const auto plan = Make(Request(1, 2, 20_MiB));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->ranks[1].batch, BatchSize(0));
  EXPECT_THAT(plan->ranks[1].reason, HasSubstr("more ranks than images"));
  EXPECT_THAT(plan->memory_plans, SizeIs(1));
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
}

TEST(MemoryPlannerTest, NamesTheBudgetThatWouldDo) {
  const auto plan = Make(Request(32, 1, 100_B));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(plan.error().message, HasSubstr("32 images on Fast/2u"));
  EXPECT_THAT(plan.error().message, HasSubstr("MiB"));
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
  EXPECT_THAT(plan->reasons,
              Contains(AllOf(HasSubstr("512 images"),
                             HasSubstr("the search was cut off after 0"),
                             HasSubstr("the bound is"))));
}

TEST(MemoryPlannerTest, IsNotCutOffIfTheSearchEndsByItself) {
  const auto plan = Make(Request(32, 1, 20_MiB));
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->cut_off);
  EXPECT_THAT(plan->reasons, IsEmpty());
}

TEST(MemoryPlannerTest, RefusesWhatItCannotPlan) {
  JobRequest request = Request(8, 2, 1_GiB);
  EXPECT_TRUE(CheckMemoryRequest(request));
  request.memory->policy = "all";
  EXPECT_EQ(CheckMemoryRequest(request).error().code, Code::kInvalidArgument);
  EXPECT_THAT(CheckMemoryRequest(request).error().message,
              HasSubstr("memory.policy: "));
  request.memory->policy = "best";
  request.device_kinds[1] = "Slow/1u/1GiB/none-1.0";
  EXPECT_EQ(CheckMemoryRequest(request).error().code, Code::kUnimplemented);

  NetworkRecord branched = Chain();
  branched.source += "conv4,3,16,16,64,3,3,1,1,1,1,1\n";
  const auto plan =
      MakeMemoryPlans(branched, Request(8, 1, 1_GiB), {}, Models(), kTime);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
  EXPECT_THAT(plan.error().message, HasSubstr("conv4"));
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
