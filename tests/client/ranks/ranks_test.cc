// Communicators of some of the ranks of real MPI jobs.

#include "client/ranks/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/mpirun.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

class RanksTest : public ::testing::Test {
 protected:
  // The output of each of three ranks.
  std::vector<Json> Job(const std::string& level, const std::string& which) {
    for (int r = 0; r < 3; ++r) {
      std::filesystem::remove(folder_ / fmt::format("rank{}.json", r));
    }
    const RankedRun run = RunRanks(
        3, {test::ProgramPath("subset_ranks"), folder_.path(), level, which},
        {}, folder_ / "log");
    std::vector<Json> results;
    for (int r = 0; r < 3; ++r) {
      results.push_back(
          Json::parse(test::FileText(folder_ / fmt::format("rank{}.json", r)),
                      nullptr, false));
      EXPECT_TRUE(results.back().is_object()) << run.output;
    }
    return results;
  }

  test::TemporaryFolder folder_;
};

TEST_F(RanksTest, MakeACommunicatorOfAll) {
  for (const Json& rank : Job("single", "111")) {
    EXPECT_EQ(rank["members"], 3);
    EXPECT_EQ(rank["sum"], 3);
  }
}

TEST_F(RanksTest, MakeACommunicatorOfSome) {
  for (const char* level : {"single", "multiple"}) {
    const auto ranks = Job(level, "101");
    for (const int r : {0, 2}) {
      EXPECT_EQ(ranks[std::size_t(r)]["members"], 2);
      EXPECT_EQ(ranks[std::size_t(r)]["sum"], 2);
    }
    EXPECT_EQ(ranks[1]["members"], 0);
  }
}

TEST_F(RanksTest, ReturnInTimeIfARankIsLostDuringCreation) {
  const auto ranks = Job("multiple", "lost");
  ASSERT_EQ(ranks[0]["level"], MPI_THREAD_MULTIPLE);
  EXPECT_EQ(ranks[2]["agreed"], true);
  EXPECT_EQ(ranks[0]["code"], "DEADLINE_EXCEEDED");
  EXPECT_EQ(ranks[0]["usable"], false);
  // It takes no part.
  EXPECT_EQ(ranks[1]["members"], 0);
  EXPECT_EQ(ranks[1]["usable"], true);
}

TEST_F(RanksTest, NameTheRankThatKeepsThemWaiting) {
  const auto ranks = Job("single", "absent");
  for (const int r : {0, 1}) {
    const Json& rank = ranks[std::size_t(r)];
    EXPECT_EQ(rank["code"], "DEADLINE_EXCEEDED");
    EXPECT_EQ(rank["message"],
              "the ranks did not agree in time: rank 2 has not made this "
              "collective call");
  }
}

TEST_F(RanksTest, SkipLaterCollectivesAfterMpiFailed) {
  for (const char* call :
       {"Iallgather", "Iallgatherv", "Ibcast", "Iallreduce", "Comm_idup"}) {
    const auto ranks = Job("single", call);
    EXPECT_EQ(ranks[1]["code"], "UNAVAILABLE") << call;
    for (const Json& rank : ranks) {
      if (std::string(call) == "Ibcast" && rank["code"] == "OK") continue;
      EXPECT_NE(rank["code"], "OK") << call;
      EXPECT_EQ(rank["usable"], false) << call;
      EXPECT_EQ(rank["next"], "UNAVAILABLE") << call;
    }
  }
}

}  // namespace
}  // namespace ucudnn
