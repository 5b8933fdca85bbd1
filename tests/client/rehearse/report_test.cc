#include "client/rehearse/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace ucudnn::rehearse {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

using namespace std::chrono_literals;

Report TwoRanks() {
  Report report;
  report.network = "tiny";
  report.batch = BatchSize(8);
  report.plan_id = 7;
  report.source = PlanSource::kCoordinator;
  report.reason = "plan 7 of coordinator a:1";
  report.tolerance = 1e-3;
  RankReport rank;
  rank.host = "node";
  rank.device_id = "x";
  rank.device_kind = "A/1u/1GiB/x-1";
  rank.batch = BatchSize(6);
  rank.weight = 0.75;
  rank.predicted = 10ms;
  rank.measured = Timing{11ms, 100us, 10};
  rank.undivided_predicted = 20ms;
  rank.errors = Errors{{1e-6, -1, 2e-6}};
  report.ranks.push_back(rank);
  rank.batch = BatchSize(2);
  rank.predicted = 12ms;
  rank.measured = Timing{9ms, 100us, 10};
  rank.undivided_predicted = 15ms;
  report.ranks.push_back(rank);
  return report;
}

TEST(RehearsalReportTest, CountsTheSlowestRank) {
  const auto json = ToJson(TwoRanks());
  EXPECT_EQ(json["predicted_us"], 12000.0);
  EXPECT_EQ(json["measured_us"], 11000.0);
  EXPECT_NEAR(json["deviation"].get<double>(), 11.0 / 12 - 1, 1e-12);
  EXPECT_EQ(json["undivided_predicted_us"], 20000.0);
  EXPECT_TRUE(json["undivided_measured_us"].is_null());
  EXPECT_NEAR(json["gain"].get<double>(), 20.0 / 11, 1e-12);
  EXPECT_EQ(json["passed"], true);
  EXPECT_NEAR(json["ranks"][0]["deviation"].get<double>(), 0.1, 1e-12);
  EXPECT_EQ(json["ranks"][1]["rank"], 1);
}

TEST(RehearsalReportTest, DoesNotCountRanksThatAreLeftOut) {
  Report report = TwoRanks();
  RankReport idle;
  report.ranks.push_back(idle);
  EXPECT_EQ(ToJson(report)["measured_us"], 11000.0);
  // But a rank that should have been measured makes the total unknown.
  report.ranks[1].predicted.reset();
  EXPECT_TRUE(ToJson(report)["predicted_us"].is_null());
}

TEST(RehearsalReportTest, AllowsWinogradOnLargeFiltersMore) {
  Report report = TwoRanks();
  report.ranks[1].errors->large_winograd = 2e-2;
  report.ranks[1] = DecodeRankReport(Encode(report.ranks[1]));
  EXPECT_TRUE(TotalOf(report).passed);
  EXPECT_EQ(report.ranks[1].errors->largest(), 2e-2);
  report.ranks[1].errors->large_winograd = 4e-2;
  EXPECT_FALSE(TotalOf(report).passed);
}

TEST(RehearsalReportTest, FailsErrorsBeyondTheTolerance) {
  Report report = TwoRanks();
  for (const double bad : {1.1e-3, std::numeric_limits<double>::quiet_NaN()}) {
    report.ranks[1].errors->by_op[0] = bad;
    EXPECT_FALSE(TotalOf(report).passed) << bad;
    // It stays a failure when one rank sends it to another.
    report.ranks[1] = DecodeRankReport(Encode(report.ranks[1]));
    EXPECT_FALSE(TotalOf(report).passed) << bad;
    EXPECT_THAT(ToTable(report), HasSubstr("FAILED"));
  }
}

TEST(RehearsalReportTest, SurvivesEncodingBetweenRanks) {
  RankReport rank = TwoRanks().ranks[0];
  rank.undivided_measured = Timing{25ms, 3us, 4};
  rank.fallbacks = {"conv1 forward ran undivided"};
  rank.in_turns = true;
  rank.driver = "d";
  rank.host_load = HostLoad{.load = 0.5, .own = 0.25, .cores = 2};
  EXPECT_EQ(Encode(DecodeRankReport(Encode(rank))), Encode(rank));
}

TEST(RehearsalReportTest, ComparesNothingOnABusyMachine) {
  Report report = TwoRanks();
  // What the ranks themselves use is no reason.
  report.ranks[0].host_load = HostLoad{.load = 2, .own = 1, .cores = 2};
  report.ranks[1].host_load = HostLoad{.load = 2, .own = 0.9, .cores = 2};
  EXPECT_EQ(ToJson(report)["comparable"], true);
  EXPECT_THAT(ToTable(report), HasSubstr("+10.0 %"));
  report.ranks[0].host_load->own = 0.5;
  report.ranks[1].host_load->own = 0.5;
  const std::string table = ToTable(report);
  EXPECT_THAT(table, Not(HasSubstr("+10.0 %")));
  EXPECT_THAT(table, HasSubstr("not comparable"));
  const std::string note =
      "node: this machine is busy (others used 1.0 of 2 cores): measured "
      "times are not comparable with predicted ones\n";
  EXPECT_THAT(table, EndsWith(note));
  EXPECT_EQ(table.find(note), table.rfind(note));
  EXPECT_EQ(ToJson(report)["comparable"], false);
}

TEST(RehearsalReportTest, PrintsATableForPeople) {
  Report report = TwoRanks();
  report.ranks[0].fallbacks = {"conv1 forward ran undivided by gemm: why"};
  report.ranks[1].in_turns = true;
  const std::string table = ToTable(report);
  EXPECT_THAT(table, HasSubstr("plan 7 of coordinator a:1"));
  EXPECT_THAT(table, HasSubstr("+10.0 %"));
  EXPECT_THAT(table, HasSubstr("1.82 x"));
  EXPECT_THAT(table, HasSubstr("passed"));
  EXPECT_THAT(table, HasSubstr("rank 0: conv1 forward ran undivided by gemm"));
  EXPECT_THAT(table, HasSubstr("rank 1 shares device x"));
  EXPECT_THAT(table, Not(HasSubstr("UNDIVIDED MEASURED")));
}

}  // namespace
}  // namespace ucudnn::rehearse
