#include "coordinator/planning/under_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using std::chrono_literals::operator""ms;

constexpr const char* kHotKind = "Hot/2u/1GiB/none-1.0";
constexpr const char* kCool = "Cool/2u/1GiB/none-1.0";

// Reaches 800 operations a nanosecond from rest, and sustains 640.
DeviceModels ThrottledModels() {
  DeviceModels models;
  models[kHotKind].arithmetic = {.fp32 = 8e5, .tf32 = 8e5, .half = 8e5};
  models[kHotKind].loaded = {.fp32 = 6.4e5, .tf32 = 8e5, .half = 0};
  return models;
}

// 10^6 multiply-adds an image, in a millisecond each.
RankPlan Rank(const char* kind, std::int64_t batch) {
  RankPlan rank;
  rank.device_kind = kind;
  rank.batch = BatchSize(batch);
  WorkspacePlan& workspace = rank.workspace.Own();
  workspace.batch = rank.batch;
  workspace.total_time = 1ms * batch;
  ConvProblem problem;
  problem.geometry.channels = 1000;
  problem.geometry.filters = 1000;
  workspace.kernels.emplace_back().problem = problem;
  return rank;
}

// A plan of one rank whose kernels reach this part of the full rate.
JobPlan PlanAt(double part, Precision precision = Precision::kFp32) {
  JobPlan plan;
  plan.request.precision = precision;
  plan.ranks = {Rank(kHotKind, 64)};
  WorkspacePlan& workspace = plan.ranks[0].workspace.Own();
  workspace.total_time =
      Nanoseconds(std::llround(Operations(workspace) / 800 / part));
  plan.predicted = workspace.total_time;
  return plan;
}

double Slowdown(const JobPlan& plan) {
  return static_cast<double>(plan.under_load.value_or(plan.predicted).count()) /
         static_cast<double>(plan.predicted.count());
}

TEST(UnderLoadTest, SlowsDownWithTheCubeRootOfTheRate) {
  JobPlan plan = PlanAt(1);
  PredictUnderLoad(ThrottledModels(), &plan);
  EXPECT_NEAR(Slowdown(plan), 1.25, 1e-4);
  EXPECT_THAT(plan.reasons, ElementsAre(AllOf(HasSubstr("64 images on Hot"),
                                              HasSubstr("25 % more"))));
  plan = PlanAt(0.729);
  PredictUnderLoad(ThrottledModels(), &plan);
  EXPECT_NEAR(Slowdown(plan), 1.25 * 0.9, 1e-4);
}

TEST(UnderLoadTest, KeepsWhatTheDeviceSustains) {
  // 0.8 cubed needs no lower clock; neither does what is nearly that.
  for (const double part : {0.1, 0.512, 0.53}) {
    JobPlan plan = PlanAt(part);
    PredictUnderLoad(ThrottledModels(), &plan);
    EXPECT_EQ(plan.under_load, std::nullopt) << part;
    EXPECT_THAT(plan.reasons, IsEmpty());
  }
}

TEST(UnderLoadTest, SaysNothingOfWhatIsUnknown) {
  for (const Precision precision : {Precision::kTf32, Precision::kPseudoHalf}) {
    JobPlan plan = PlanAt(1, precision);
    PredictUnderLoad(ThrottledModels(), &plan);
    EXPECT_EQ(plan.under_load, std::nullopt);
  }
  JobPlan plan = PlanAt(1);
  PredictUnderLoad({}, &plan);
  EXPECT_EQ(plan.under_load, std::nullopt);
}

TEST(UnderLoadTest, CountsTheSlowestRank) {
  JobPlan plan = PlanAt(1);
  const Nanoseconds alone = plan.predicted;
  plan.ranks.push_back(Rank(kCool, 1));
  plan.ranks[1].workspace.Own().total_time = 2 * alone;
  plan.ranks.emplace_back().device_kind = kHotKind;  // left out
  plan.predicted = 2 * alone;
  PredictUnderLoad(ThrottledModels(), &plan);
  EXPECT_EQ(plan.under_load, 2 * alone);
  EXPECT_EQ(plan.reasons.size(), 1U);
}

TEST(UnderLoadTest, PlansDependOnRatesUnderLoadOnly) {
  DeviceModels models = ThrottledModels();
  const std::string text = LoadInputsText(models);
  EXPECT_THAT(text, HasSubstr(kHotKind));
  models[kHotKind].launch = Nanoseconds(1);
  EXPECT_EQ(LoadInputsText(models), text);
  models[kHotKind].loaded.fp32 = 7e5;
  EXPECT_NE(LoadInputsText(models), text);
  models[kHotKind].loaded = {};
  EXPECT_EQ(LoadInputsText(models), "");
}

}  // namespace
}  // namespace ucudnn
