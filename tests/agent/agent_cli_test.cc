// How `ucudnn-agent` refuses options.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/files/file.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(AgentCliTest, RefusesFewerRepeatsThanAMeasurementHas) {
  for (const std::string repeats : {"0", "1", "2", "10001"}) {
    const test::Finished run =
        test::Run({test::ProgramPath("ucudnn-agent"), "--repeats", repeats});
    EXPECT_EQ(run.status, 2) << repeats << ": " << run.err;
    EXPECT_THAT(run.err, AllOf(HasSubstr("--repeats"), HasSubstr(repeats),
                               HasSubstr("3"), HasSubstr("10000")));
  }
}

TEST(AgentCliTest, RefusesAConfigFileWithAnUnknownKey) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "agent.toml";
  ASSERT_TRUE(ReplaceFile(file, "cpu-devices = 1\ncpu-device = 2\n"));
  const test::Finished run =
      test::Run({test::ProgramPath("ucudnn-agent"), "--config", file});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err,
              AllOf(HasSubstr(file + ":2: there is no setting 'cpu-device'"),
                    HasSubstr("cpu-threads")));
}

TEST(AgentCliTest, NamesTheLineOfAnInvalidCoordinator) {
  const test::TemporaryFolder folder;
  const std::string file = folder / "agent.toml";
  ASSERT_TRUE(ReplaceFile(file, "coordinator = [\"a:7460\", \"b\"]\n"));
  const test::Finished run =
      test::Run({test::ProgramPath("ucudnn-agent"), "--config", file});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr(file + ":1: coordinator = 'a:7460,b': "));
}

}  // namespace
}  // namespace ucudnn
