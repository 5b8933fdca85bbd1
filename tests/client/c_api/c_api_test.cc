// The C interface of libucudnn: what it answers to unusual calls.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text.h"
#include "tests/support/mpirun.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "ucudnn/ucudnn.h"

namespace ucudnn {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CApiTest, CutsTheNamesOfUnknownOptionsBetweenCharacters) {
  ucudnn_options* options = nullptr;
  ASSERT_EQ(ucudnn_options_create(&options), UCUDNN_OK);
  const std::string name = std::string(63, 'a') + "é" + std::string(30, 'b');
  EXPECT_EQ(ucudnn_options_set(options, name.c_str(), "1"),
            UCUDNN_INVALID_ARGUMENT);
  const std::string message = ucudnn_last_error_message(nullptr);
  EXPECT_TRUE(IsPlainText(message)) << message;
  EXPECT_THAT(message, HasSubstr("'" + std::string(63, 'a') + "...'"));
  ucudnn_options_destroy(options);
}

TEST(CApiTest, NamesAnOptionOnce) {
  ucudnn_options* options = nullptr;
  ASSERT_EQ(ucudnn_options_create(&options), UCUDNN_OK);
  const auto refused = [&](const char* name, const char* value) {
    EXPECT_EQ(ucudnn_options_set(options, name, value),
              UCUDNN_INVALID_ARGUMENT);
    return std::string(ucudnn_last_error_message(nullptr));
  };
  EXPECT_THAT(refused("coordinators", "nowhere"),
              StartsWith("coordinators: 'nowhere' is given"));
  EXPECT_THAT(refused("device", "tpu"), StartsWith("device is 'tpu'"));
  EXPECT_THAT(refused("batch", "none"), StartsWith("batch: "));
  ucudnn_options_destroy(options);
}

class CApiRanksTest : public ::testing::Test {
 protected:
  // What each rank of a job of two wrote.
  std::vector<Json> Job(const std::string& what) {
    const RankedRun run = RunRanks(
        2, {test::ProgramPath("c_api_ranks"), folder_.path(), what},
        {"UCUDNN_COORDINATOR=", "UCUDNN_PLAN_FILE=", "OMP_WAIT_POLICY=passive",
         "UCUDNN_CACHE_DIR=" + (folder_ / "cache")},
        folder_ / "log");
    EXPECT_EQ(run.exit_status, 0) << run.output;
    std::vector<Json> ranks;
    for (int r = 0; r < 2; ++r) {
      ranks.push_back(
          Json::parse(test::FileText(folder_ / fmt::format("rank{}.json", r)),
                      nullptr, false));
      EXPECT_TRUE(ranks.back().is_object()) << run.output;
      EXPECT_FALSE(ranks.back().contains("error")) << ranks.back();
    }
    return ranks;
  }

  test::TemporaryFolder folder_;
};

TEST_F(CApiRanksTest, AllRanksRefuseGradientsOfAnUnknownType) {
  for (const Json& rank : Job("unknown-type")) {
    EXPECT_EQ(rank["refused"]["status"], UCUDNN_INVALID_ARGUMENT) << rank;
    EXPECT_THAT(rank["refused"]["message"].get<std::string>(),
                HasSubstr("type is 7"));
    // The session stays usable.
    EXPECT_EQ(rank["next"]["status"], UCUDNN_OK) << rank;
    EXPECT_DOUBLE_EQ(rank["mean"], 1);
  }
}

TEST_F(CApiRanksTest, RefuseWhatAJobNamesWrongly) {
  for (const Json& rank : Job("named-wrongly")) {
    EXPECT_EQ(rank["no_network"]["status"], UCUDNN_INVALID_ARGUMENT) << rank;
    EXPECT_EQ(rank["no_network"]["message"],
              "rank 0: network or network_file is required");
    EXPECT_EQ(rank["no_plan_file"]["status"], UCUDNN_INVALID_ARGUMENT) << rank;
    EXPECT_THAT(rank["no_plan_file"]["message"].get<std::string>(),
                StartsWith("rank 0: plan file: /none/plan.json: "));
  }
}

TEST_F(CApiRanksTest, ANullCommunicatorHoldsUpNoOtherRank) {
  const std::vector<Json> ranks = Job("null-comm");
  EXPECT_EQ(ranks[0]["call"]["status"], UCUDNN_OK) << ranks[0];
  EXPECT_EQ(ranks[1]["call"]["status"], UCUDNN_INVALID_ARGUMENT) << ranks[1];
}

TEST_F(CApiRanksTest, FillsStructuresOfOtherVersions) {
  const Json rank = Job("struct-sizes")[0];
  ASSERT_EQ(rank["sizes"].size(), 3U) << rank;
  const std::size_t known = rank["known_size"];
  for (const Json& one : rank["sizes"]) {
    EXPECT_EQ(one["status"], UCUDNN_OK) << one;
    EXPECT_EQ(one["layer"], "conv1");
    EXPECT_EQ(one["beyond"], 0xAA) << "written beyond the caller's structure";
  }
  EXPECT_LT(rank["sizes"][0]["filled"], known);  // an older caller's size
  EXPECT_EQ(rank["sizes"][1]["filled"], known);
  EXPECT_EQ(rank["sizes"][2]["filled"], known);  // a newer caller's is larger
  EXPECT_EQ(rank["sizes"][2]["added"], 0);
  for (const Json& refused : rank["refused"]) {
    EXPECT_EQ(refused["status"], UCUDNN_INVALID_ARGUMENT) << refused;
    EXPECT_THAT(refused["message"].get<std::string>(),
                HasSubstr("set it to sizeof(ucudnn_kernel)"));
  }
}

}  // namespace
}  // namespace ucudnn
