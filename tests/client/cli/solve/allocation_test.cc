// `ucudnn solve allocation` as people and scripts call it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/cli/solve/solve_command.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using test::Finished;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string File(const std::string& text) {
  const std::string path = ::testing::TempDir() + "allocation_buffers.csv";
  std::ofstream(path) << text;
  return path;
}

std::string Drawn() {
  return File(
      "id,lower,upper,size\nfirst,0,3,4\n1,3,9,4\n2,0,9,4\n3,9,21,4\n"
      "4,0,21,4\n");
}

TEST(SolveAllocationTest, GivesOffsetsWithLoadPoolAndProof) {
  const auto answer = SolveJson("allocation", {"--buffers", Drawn()});
  EXPECT_EQ(answer.at("load"), 12);
  EXPECT_EQ(answer.at("pool"), 12);
  EXPECT_EQ(answer.at("lower_bound"), 12);
  EXPECT_EQ(answer.at("proven"), true);
  ASSERT_EQ(answer.at("buffers").size(), 5U);
  EXPECT_EQ(answer.at("buffers").at(0).at("id"), "first");
  for (const auto& buffer : answer.at("buffers")) {
    EXPECT_LE(buffer.at("offset").get<int>(), 8);
  }
}

TEST(SolveAllocationTest, PrintsCsvToStandardOutputAlone) {
  const Finished run = Solve(
      "allocation", {"--buffers", Drawn(), "--capacity", "12", "-o", "csv"});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.out, ::testing::StartsWith("id,offset\nfirst,"));
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 6);
  EXPECT_EQ(run.err, "ucudnn: pool 12, load 12: no smaller pool is possible\n");
}

TEST(SolveAllocationTest, PrintsATableForPeople) {
  const Finished run = Solve("allocation", {"--buffers", Drawn()});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("OFFSET"), HasSubstr("pool 12, load 12")));
}

TEST(SolveAllocationTest, NamesTheCapacityThatWouldDo) {
  const Finished run =
      Solve("allocation", {"--buffers", Drawn(), "--capacity", "11"});
  EXPECT_EQ(run.status, 3);
  EXPECT_THAT(run.out, IsEmpty());
  EXPECT_THAT(run.err, AllOf(HasSubstr("capacity of 11 bytes"),
                             HasSubstr("the smallest that would do is 12")));
}

TEST(SolveAllocationTest, RefusesMalformedInputNamingThePlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"id,lower,upper\n0,1,2\n", "size"},
      {"id,lower,upper,size\n0,5,4,1\n", ":2"},
      {"id,lower,upper,size\n0,0,1,1\n0,0,1,1\n", ":3"},
      {"id,lower,upper,size\n0,0,1,many\n", "'many'"},
      {"id,lower,upper,size\n0,0,1,9223372036854775807\n", "2^60"}};
  for (const auto& [text, named] : cases) {
    const Finished run = Solve("allocation", {"--buffers", File(text)});
    EXPECT_EQ(run.status, 2) << text;
    EXPECT_THAT(run.out, IsEmpty());
    EXPECT_THAT(run.err, HasSubstr(named));
    EXPECT_THAT(run.err, HasSubstr("allocation_buffers.csv"));
  }
  EXPECT_EQ(Solve("allocation", {"--buffers", "/nowhere.csv"}).status, 2);
  for (const char* seconds : {"0", "-1", "soon", "1e300"}) {
    const Finished run =
        Solve("allocation", {"--buffers", Drawn(), "--time-limit", seconds});
    EXPECT_EQ(run.status, 2) << seconds;
    EXPECT_THAT(run.err, HasSubstr("--time-limit"));
  }
}

TEST(SolveAllocationTest, AnswersWithTheBestFoundWhenTimeIsUp) {
  const auto file =
      test::PublicDataPath("minimalloc/challenging/J.1048576.csv");
  if (!file) GTEST_SKIP() << "UCUDNN_PUBLIC_DATA is not set";
  const auto answer =
      SolveJson("allocation", {"--buffers", *file, "--time-limit", "0.5"});
  EXPECT_EQ(answer.at("load"), 989184);
  EXPECT_GE(answer.at("pool"), answer.at("lower_bound"));
  EXPECT_GE(answer.at("lower_bound"), 989184);
}

// No placement at the load of this instance was known.
TEST(SolveAllocationTest, ReachesTheLoadOfAnOpenPublicInstance) {
  const auto file =
      test::PublicDataPath("minimalloc/challenging/D.1048576.csv");
  if (!file) GTEST_SKIP() << "UCUDNN_PUBLIC_DATA is not set";
  const auto answer =
      SolveJson("allocation", {"--buffers", *file, "--time-limit", "300"});
  EXPECT_EQ(answer.at("pool"), 986112);
  EXPECT_EQ(answer.at("load"), 986112);
  EXPECT_EQ(answer.at("proven"), true);
}

}  // namespace
}  // namespace ucudnn
