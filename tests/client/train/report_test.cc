#include "client/examples/train/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace ucudnn::train {
namespace {

using std::chrono::microseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Report SampleReport() {
  Report report;
  report.net = "lenet";
  report.batch = BatchSize(8);
  report.source = "coordinator";
  report.losses = {2.5, 2.25};
  report.steps = {microseconds(90), microseconds(60)};
  RankReport fast;
  fast.device_kind = "fast";
  fast.batch = BatchSize(6);
  fast.weight = 0.75;
  fast.predicted = microseconds(20);
  fast.convolutions = microseconds(21);
  fast.passes = {microseconds(50), microseconds(40)};
  fast.exchanges = {microseconds(7), microseconds(10)};
  RankReport slow = fast;
  slow.device_kind = "slow";
  slow.batch = BatchSize(2);
  slow.predicted = microseconds(25);
  slow.convolutions = microseconds(24);
  slow.passes = {microseconds(30), microseconds(45)};
  slow.exchanges = {microseconds(27), microseconds(5)};
  slow.fallbacks = {"conv1 forward ran undivided"};
  RankReport idle;
  idle.device_kind = "idle";
  idle.passes = {microseconds(0), microseconds(0)};
  idle.exchanges = {microseconds(0), microseconds(0)};
  report.ranks = {fast, slow, idle};
  return report;
}

TEST(ReportTest, TakesTheSlowestRankOfEachStep) {
  EXPECT_THAT(SlowestPasses(SampleReport()),
              ElementsAre(microseconds(50), microseconds(45)));
  const auto json = ToJson(SampleReport());
  // The first step includes preparations.
  EXPECT_EQ(json["passes_us"], 45.0);
  EXPECT_EQ(json["predicted_us"], 25.0);
  EXPECT_EQ(json["convolutions_us"], 24.0);
  EXPECT_EQ(json["exchange_us"], 5.0);
  EXPECT_EQ(json["step_us"], 60.0);
  EXPECT_TRUE(json["ranks"][2]["predicted_us"].is_null());
}

TEST(ReportTest, CountsTheLastRanksWaitAsExchange) {
  EXPECT_THAT(Exchanges(SampleReport()),
              ElementsAre(microseconds(7), microseconds(5)));
}

TEST(ReportTest, ReportsNoStepTimeIfRanksTakeTurns) {
  Report report = SampleReport();
  report.in_turns = true;
  EXPECT_TRUE(ToJson(report)["step_us"].is_null());
  EXPECT_THAT(ToTable(report), HasSubstr("ranks compute in turns"));
}

TEST(ReportTest, PredictsNothingUnlessAllBusyRanksAreMeasured) {
  Report report = SampleReport();
  report.ranks[0].predicted.reset();
  EXPECT_TRUE(ToJson(report)["predicted_us"].is_null());
}

TEST(ReportTest, ShowsDeviationsAndFallbacks) {
  const std::string table = ToTable(SampleReport());
  EXPECT_THAT(table, HasSubstr("+5.0 %"));
  EXPECT_THAT(table, HasSubstr("-4.0 %"));
  EXPECT_THAT(table, HasSubstr("rank 1: conv1 forward ran undivided"));
  EXPECT_THAT(table, HasSubstr("loss 2.5 at step 0, 2.25 at step 1"));
}

TEST(ReportTest, SurvivesEncodingBetweenRanks) {
  for (const RankReport& rank : SampleReport().ranks) {
    const RankReport read = DecodeRankReport(Encode(rank));
    EXPECT_EQ(read.device_kind, rank.device_kind);
    EXPECT_EQ(read.batch, rank.batch);
    EXPECT_EQ(read.weight, rank.weight);
    EXPECT_EQ(read.predicted, rank.predicted);
    EXPECT_EQ(read.convolutions, rank.convolutions);
    EXPECT_EQ(read.passes, rank.passes);
    EXPECT_EQ(read.fallbacks, rank.fallbacks);
  }
}

TEST(ReportTest, LeavesOutTheFirstStepsOfManyOnly) {
  EXPECT_EQ(Typical({}), std::nullopt);
  EXPECT_EQ(Typical({microseconds(9)}), microseconds(9));
  std::vector<Nanoseconds> times(10, microseconds(4));
  times[0] = times[1] = times[2] = microseconds(100);
  EXPECT_EQ(Typical(times), microseconds(4));
}

}  // namespace
}  // namespace ucudnn::train
