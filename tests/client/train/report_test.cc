#include "client/train/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace ucudnn::train {
namespace {

using std::chrono::microseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RankReport Rank(const char* kind, std::int64_t batch, double predicted,
                std::vector<Nanoseconds> passes,
                std::vector<Nanoseconds> times) {
  RankReport rank;
  rank.shown = {{"device_kind", kind}, {"batch", batch}};
  if (batch > 0) {
    rank.shown.update({{"budget_bytes", 2 << 20},
                       {"peak_bytes", 1 << 20},
                       {"offloaded_bytes", 0},
                       {"predicted_us", predicted},
                       {"predicted_passes_us", predicted - 2},
                       {"passes_us", 42.0},
                       {"stalls_us", {{"offload", 1.5}, {"sync", 0.5}}}});
  }
  rank.passes = std::move(passes);
  rank.times = std::move(times);
  return rank;
}

Report SampleReport() {
  Report report;
  report.network = "lenet";
  report.batch = BatchSize(8);
  report.source = "coordinator";
  report.losses = {2.5, 2.25};
  report.steps = {microseconds(90), microseconds(60)};
  report.predicted = microseconds(70);
  report.ranks = {Rank("fast", 6, 42, {microseconds(50), microseconds(40)},
                       {microseconds(57), microseconds(50)}),
                  Rank("slow", 2, 45, {microseconds(30), microseconds(45)},
                       {microseconds(57), microseconds(50)}),
                  Rank("idle", 0, 0, {}, {})};
  return report;
}

TEST(ReportTest, TakesTheSlowestRankOfEachStep) {
  EXPECT_THAT(SlowestPasses(SampleReport()),
              ElementsAre(microseconds(50), microseconds(45)));
  const auto json = ToJson(SampleReport());
  EXPECT_EQ(json["passes_us"], 47.5);
  EXPECT_EQ(json["predicted_us"], 70.0);
  EXPECT_EQ(json["exchange_us"], 6.0);
  EXPECT_EQ(json["step_us"], 75.0);
  EXPECT_EQ(json["ranks"][2]["batch"], 0);
}

TEST(ReportTest, CountsTheLastRanksWaitAsExchange) {
  EXPECT_THAT(Exchanges(SampleReport()),
              ElementsAre(microseconds(7), microseconds(5)));
}

TEST(ReportTest, ReportsNoStepTimeIfRanksTakeTurns) {
  Report report = SampleReport();
  report.in_turns = true;
  report.predicted.reset();
  EXPECT_TRUE(ToJson(report)["step_us"].is_null());
  EXPECT_TRUE(ToJson(report)["predicted_us"].is_null());
  EXPECT_THAT(ToTable(report), HasSubstr("ranks compute in turns"));
}

TEST(ReportTest, ReportsNoTimesOfAnInterruptedStart) {
  Report report = SampleReport();
  report.steps.clear();
  for (RankReport& rank : report.ranks) rank.passes.clear();
  EXPECT_TRUE(ToJson(report)["step_us"].is_null());
  EXPECT_TRUE(ToJson(report)["passes_us"].is_null());
}

TEST(ReportTest, ShowsDeviationsAndWhy) {
  Report report = SampleReport();
  report.ranks[1].shown["why"] = "the slowest";
  report.ranks[0].shown["task_times"]["operators"] = {
      {{"operator", "relu forward"},
       {"tasks", 3},
       {"predicted_us", 4},
       {"us", 5}}};
  const std::string table = ToTable(report);
  EXPECT_THAT(table, HasSubstr("+5.0 %"));
  EXPECT_THAT(table, HasSubstr("-2.3 %"));
  EXPECT_THAT(table, HasSubstr("rank 1: the slowest"));
  EXPECT_THAT(table, HasSubstr("relu forward"));
  EXPECT_THAT(table, HasSubstr("loss 2.5 at step 0, 2.25 at step 1"));
}

TEST(ReportTest, ComparesNothingOnAMachineThatOthersKeepBusy) {
  Report report = SampleReport();
  for (RankReport& rank : report.ranks) {
    rank.shown["host"] = "n1";
    rank.shown["host_load"] = {{"load", 3.5}, {"own", 1.1}, {"cores", 4}};
  }
  EXPECT_EQ(ToJson(report)["comparable"], true);
  EXPECT_THAT(ToTable(report), HasSubstr("+5.0 %"));
  report.ranks.pop_back();
  EXPECT_EQ(ToJson(report)["comparable"], false);
  EXPECT_THAT(ToTable(report), AllOf(HasSubstr("others used 1.3 of 4 cores"),
                                     HasSubstr("not comparable")));
}

TEST(ReportTest, SaysThatRanksSlowEachOtherDown) {
  Report report = SampleReport();
  report.share_device = true;
  EXPECT_THAT(ToTable(report), HasSubstr("share a device"));
  report.in_turns = true;
  EXPECT_THAT(ToTable(report), Not(HasSubstr("share a device")));
}

TEST(ReportTest, SaysThatLossesDependOnShares) {
  Report report = SampleReport();
  EXPECT_THAT(ToTable(report), Not(HasSubstr("depend")));
  report.statistics_of_parts = true;
  EXPECT_THAT(ToTable(report), HasSubstr("losses depend on the shares"));
  EXPECT_EQ(ToJson(report)["losses_depend_on_shares"], true);
}

TEST(ReportTest, SaysWhatBecameOfStreams) {
  Report report = SampleReport();
  EXPECT_THAT(ToTable(report), Not(HasSubstr("streams")));
  report.ranks[0].shown["streams"] = {{"asked", 3},
                                      {"kept", 3},
                                      {"alone_us", 50},
                                      {"together_us", 42},
                                      {"why", ""}};
  report.ranks[1].shown["streams"] = {{"asked", 3},
                                      {"kept", 1},
                                      {"alone_us", nullptr},
                                      {"together_us", nullptr},
                                      {"why", "nothing is captured"}};
  EXPECT_THAT(ToTable(report),
              AllOf(HasSubstr("rank 0: 3 of 3 streams kept: passes take 50.0 "
                              "us with 1, 42.0 us with 3\n"),
                    HasSubstr("rank 1: 1 of 3 streams kept: nothing is "
                              "captured\n")));
}

TEST(ReportTest, SurvivesEncodingBetweenRanks) {
  for (const RankReport& rank : SampleReport().ranks) {
    const RankReport read = DecodeRankReport(Encode(rank));
    EXPECT_EQ(read.shown, rank.shown);
    EXPECT_EQ(read.passes, rank.passes);
    EXPECT_EQ(read.times, rank.times);
  }
}

}  // namespace
}  // namespace ucudnn::train
