// What `ucudnn-agent` says of options that it does not take.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(AgentCliTest, RefusesFewerRepeatsThanAMeasurementHas) {
  for (const std::string repeats : {"0", "1", "2", "10001"}) {
    const test::Finished run =
        test::Run({UCUDNN_BIN_DIR "/ucudnn-agent", "--repeats", repeats});
    EXPECT_EQ(run.status, 2) << repeats << ": " << run.err;
    EXPECT_THAT(run.err, AllOf(HasSubstr("--repeats"), HasSubstr(repeats),
                               HasSubstr("3"), HasSubstr("10000")));
  }
}

}  // namespace
}  // namespace ucudnn
