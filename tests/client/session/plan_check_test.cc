#include "client/session/plan_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/tiny_memory_plan.h"
#include "tests/client/tiny_network.h"
#include "tests/support/fake_device.h"

namespace ucudnn {
namespace {

using ::testing::HasSubstr;

const JobRequest kRequest = TinyRequest(BatchSize(8), {"A", "B"});

std::vector<Kernel> Kernels() {
  return KernelsOf(TinyNetwork(), Precision::kFp32, Layout::kNchw);
}

TEST(CheckPlanTest, AcceptsThePlanThatWasAskedFor) {
  for (const auto& shares : {std::vector<std::int64_t>{5, 3}, {8, 0}}) {
    const Status fits =
        CheckPlan(TinyPlan(kRequest, shares), kRequest, Kernels(), true);
    EXPECT_TRUE(fits) << fits.error().message;
  }
}

TEST(CheckPlanTest, SaysWhatDoesNotFit) {
  const auto kernel = [](JobPlan& plan) -> KernelPlan& {
    return plan.ranks[0].workspace.Own().kernels[0];
  };
  const std::vector<std::pair<std::function<void(JobPlan&)>, std::string>>
      changes = {
          {[](JobPlan& p) { p.request.network = "vgg"; },
           "it is for network vgg, the job has tiny"},
          {[](JobPlan& p) { p.request.batch = BatchSize(9); },
           "it is for a batch of 9, the job has 8"},
          {[](JobPlan& p) { p.request.precision = Precision::kTf32; },
           "precision TF32, the job has FP32"},
          {[](JobPlan& p) { p.request.layout = Layout::kNhwc; }, "layout NHWC"},
          {[](JobPlan& p) { p.ranks.pop_back(); }, "a number of ranks: 1"},
          {[](JobPlan& p) { p.ranks[1].device_kind = "C"; },
           "rank 1 on device kind C, the job has B"},
          {[](JobPlan& p) { p.ranks[0].weight = 0.5; },
           "for rank 0: it has weight 0.5 for 5 of 8 images"},
          {[](JobPlan& p) {
             p.ranks[0].batch = BatchSize(4);
             p.ranks[0].weight = 0.5;
           },
           "it has 4 images, and kernels for 5"},
          {[](JobPlan& p) {
             p.ranks[1] = p.ranks[0];
             p.ranks[1].device_kind = "B";
           },
           "its ranks have 10 images together, the job has 8"},
          {[](JobPlan& p) { p.ranks[0].workspace.Own().kernels.pop_back(); },
           "it has no kernel conv2 backward_filter"},
          {[](JobPlan& p) {
             auto& kernels = p.ranks[0].workspace.Own().kernels;
             kernels.push_back(kernels[0]);
           },
           "conv1 forward is not one of the job's, or is there twice"},
          {[&](JobPlan& p) { kernel(p).problem->geometry.filters = 4; },
           "its kernel conv1 forward is forward-c3-h8w8-k4"},
          {[&](JobPlan& p) { kernel(p).problem.reset(); }, "is not told"},
          {[&](JobPlan& p) { kernel(p).micro_batches.pop_back(); },
           "ranks[0].workspace.kernels[0].micro_batches have 4 images "
           "together; 5"},
          {[&](JobPlan& p) { kernel(p).micro_batches[0].count = -1; },
           "kernels[0].micro_batches[0].count is -1; 1 to 5 is accepted"},
          {[&](JobPlan& p) { kernel(p).workspace = 65_MiB; },
           "conv1 forward needs a workspace up to 65MiB, the limit is 64MiB"},
      };
  for (const Bytes offset : {Bytes(-8), Bytes(1LL << 62)}) {
    JobPlan plan = TinyPlan(kRequest, {5, 3});
    kernel(plan).offset = offset;
    const Status fits = CheckPlan(plan, kRequest, Kernels(), false);
    ASSERT_FALSE(fits) << offset.count();
    EXPECT_EQ(fits.error().code, Code::kInvalidArgument);
  }
  for (const auto& [change, why] : changes) {
    JobPlan plan = TinyPlan(kRequest, {5, 3});
    change(plan);
    const Status fits = CheckPlan(plan, kRequest, Kernels(), true);
    ASSERT_FALSE(fits) << why;
    EXPECT_THAT(fits.error().message, HasSubstr(why));
  }
}

TEST(CheckPlanTest, ChecksLimitsOnlyWhereTheyWereChosen) {
  JobPlan plan = TinyPlan(kRequest, {5, 3});
  plan.ranks[0].workspace.Own().kernels[0].workspace = 1_GiB;
  EXPECT_FALSE(CheckPlan(plan, kRequest, Kernels(), true));
  EXPECT_TRUE(CheckPlan(plan, kRequest, Kernels(), false));
  JobRequest divided = kRequest;
  divided.total_workspace = 2_GiB;
  EXPECT_TRUE(CheckPlan(plan, divided, Kernels(), true));
  plan.ranks[0].workspace.Own().kernels[0].offset = 1_GiB + 1_B;
  EXPECT_FALSE(CheckPlan(plan, divided, Kernels(), true));
}

TEST(CheckPlanTest, AcceptsAnyKernelsOfANetworkItDoesNotKnow) {
  EXPECT_TRUE(CheckPlan(TinyPlan(kRequest, {5, 3}), kRequest, {}, true));
}

TEST(CheckPlanTest, WantsTheBoundOnErrorsThatTheJobNames) {
  JobRequest bounded = kRequest;
  bounded.max_error = 1e-3;
  const JobPlan plan = TinyPlan(kRequest, {5, 3});
  const Status fits = CheckPlan(plan, bounded, Kernels(), true);
  ASSERT_FALSE(fits);
  EXPECT_THAT(fits.error().message,
              HasSubstr("max_error 0, the job has 0.001"));
  EXPECT_TRUE(CheckPlan(TinyPlan(bounded, {5, 3}), bounded, Kernels(), true));
}

TEST(CheckOnDeviceTest, AcceptsWhatTheDeviceLists) {
  FakeDevice device;
  const JobPlan plan = TinyPlan(kRequest, {5, 3});
  for (const RankPlan& rank : plan.ranks) {
    EXPECT_TRUE(CheckOnDevice(device, rank.workspace));
  }
}

TEST(CheckOnDeviceTest, SaysWhatTheDeviceCannotRun) {
  FakeDevice device;
  WorkspacePlan plan = TinyPlan(kRequest, {5, 3}).ranks[0].workspace;
  plan.kernels[1].workspace = 199_B;
  EXPECT_THAT(CheckOnDevice(device, plan).error().message,
              HasSubstr("conv1 backward_filter: lavish on 2 images needs 200"));
  device.algorithms()[0].max_batch = BatchSize(1);
  EXPECT_THAT(CheckOnDevice(device, plan).error().message,
              HasSubstr("conv1 forward: device fake-0 has no algorithm lavish "
                        " for 2 images"));
}

JobRequest MemoryRequestOf(std::vector<Bytes> budgets) {
  JobRequest request = kRequest;
  request.workspace_limit = Bytes(0);
  request.memory.emplace().budgets = std::move(budgets);
  return request;
}

TEST(CheckMemoryPlanTest, AcceptsMemoryPlansOfTheJobsNetwork) {
  const JobRequest request = MemoryRequestOf({1_MiB, 64_KiB});
  const JobPlan plan = TinyMemoryPlan(request, {5, 3});
  const Status fits = CheckPlan(plan, request, Kernels(), true);
  EXPECT_TRUE(fits) << fits.error().message;
  // A plan file may have them although the job did not ask.
  EXPECT_TRUE(CheckPlan(plan, kRequest, Kernels(), true));
  for (const std::size_t rank : {0U, 1U}) {
    const Status runs = CheckMemoryPlan(plan, rank, Kernels(), 1_MiB);
    EXPECT_TRUE(runs) << runs.error().message;
  }
  const JobPlan one = TinyMemoryPlan(request, {8, 0});
  EXPECT_TRUE(CheckPlan(one, request, Kernels(), true));
  EXPECT_TRUE(CheckMemoryPlan(one, 1, Kernels(), 1_MiB));
}

TEST(CheckMemoryPlanTest, SaysWhatTheJobDidNotAskFor) {
  const JobRequest request = MemoryRequestOf({1_MiB, 64_KiB});
  const auto why = [&](const JobPlan& plan, const JobRequest& wanted) {
    const Status fits = CheckPlan(plan, wanted, Kernels(), true);
    return fits ? std::string() : fits.error().message;
  };
  EXPECT_THAT(why(TinyPlan(kRequest, {5, 3}), request),
              HasSubstr("it has no memory plans, the job asks for them"));
  JobPlan plan = TinyMemoryPlan(request, {5, 3});
  plan.memory_plans.pop_back();
  EXPECT_THAT(why(plan, request),
              HasSubstr("for rank 1: it has no memory plan of 3 images"));
  plan = TinyMemoryPlan(request, {5, 3});
  EXPECT_THAT(why(plan, MemoryRequestOf({1_KiB})),
              HasSubstr("the job's budget is 1KiB"));
  JobRequest with_momentum = request;
  with_momentum.memory->momentum = true;
  EXPECT_THAT(why(plan, with_momentum), HasSubstr("no momentum"));
}

TEST(CheckMemoryPlanTest, SaysWhyADeviceCannotRunIt) {
  const JobRequest request = MemoryRequestOf({1_MiB});
  using Json = nlohmann::ordered_json;
  const auto why = [&](const std::function<void(JobPlan&, Json&)>& change,
                       Bytes memory = 1_MiB) {
    JobPlan plan = TinyMemoryPlan(request, {5, 3});
    Json body = Json::parse(plan.memory_plans[0].plan);
    change(plan, body);
    plan.memory_plans[0].plan = body.dump();
    const Status runs = CheckMemoryPlan(plan, 0, Kernels(), memory);
    return runs ? std::string() : runs.error().message;
  };
  const auto nothing = [](JobPlan&, Json&) {};
  EXPECT_EQ(why(nothing), "");
  EXPECT_THAT(why(nothing, 1_KiB), HasSubstr("the device has 1KiB"));
  EXPECT_THAT(why([](JobPlan& p, Json&) { p.ranks[0].batch = BatchSize(4); }),
              HasSubstr("there is no memory plan"));
  EXPECT_THAT(why([](JobPlan& p, Json&) {
                p.ranks[0].batch = p.memory_plans[0].batch = BatchSize(4);
              }),
              HasSubstr("is for 5 images, the rank has 4"));
  EXPECT_THAT(why([](JobPlan&, Json& body) { body.erase("graph"); }),
              HasSubstr("memory plan.graph"));
  EXPECT_THAT(why([](JobPlan&, Json& body) {
                for (Json& task : body["graph"]["tasks"]) {
                  if (!task.contains("problem")) continue;
                  std::string text = task["problem"];
                  text.replace(text.find("k3"), 2, "k4");
                  task["problem"] = text;
                }
              }),
              HasSubstr("a network with other convolutions"));
  EXPECT_THAT(why([](JobPlan&, Json& body) {
                body["rounds"][0]["events"].back()["start_us"] = 0;
              }),
              HasSubstr("is not safe: R"));
}

}  // namespace
}  // namespace ucudnn
