// A rank that fails anywhere in a step tells all others, who do not wait for
// it. By real MPI ranks on CPUs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/mpirun.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn::train {
namespace {

using ::testing::HasSubstr;

class JobExchangeTest : public ::testing::TestWithParam<std::string> {};

TEST_P(JobExchangeTest, TellsAllRanksWhyOneFailed) {
  const test::TemporaryFolder folder;
  const RankedRun run = RunRanks(
      3, {test::ProgramPath("exchange_ranks"), folder.path(), GetParam()}, {},
      folder / "log", /*seconds=*/60);
  EXPECT_EQ(run.exit_status, 0) << run.output;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(test::FileText(folder / fmt::format("rank{}", rank)),
                HasSubstr("rank 2: the device is lost"))
        << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(In, JobExchangeTest,
                         ::testing::Values("passes", "sums", "end"),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace ucudnn::train
