// How `ucudnn-agent` refuses options.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/files/file.h"
#include "tests/support/notify_socket.h"
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

#ifdef UCUDNN_WITH_ONEDNN
TEST(AgentCliTest, TellsTheServiceManagerWhenItWorksLivesAndStops) {
  test::NotifySocket manager;
  const test::TemporaryFolder folder;
  // Also without a coordinator, for which it waits.
  test::Process agent(
      {test::ProgramPath("ucudnn-agent"), "--coordinator", "127.0.0.1:1",
       "--cpu-devices", "1"},
      folder / "log",
      {{"NOTIFY_SOCKET", manager.address()}, {"WATCHDOG_USEC", "1000"}});
  EXPECT_TRUE(test::WaitUntil([&] {
    return std::ranges::count(manager.Received(), "WATCHDOG=1") >= 2;
  })) << test::FileText(folder / "log");
  EXPECT_EQ(manager.Received().front(), "READY=1");
  EXPECT_EQ(agent.Stop(), 0);
  EXPECT_EQ(std::ranges::count(manager.Received(), "STOPPING=1"), 1);
}
#endif

#ifdef UCUDNN_WITH_CUDNN
// What an agent logs that has the fake GPU and waits for a coordinator.
std::string LogOnFakeGpu(const std::map<std::string, std::string>& more) {
  const test::TemporaryFolder folder;
  const std::string fakes = test::LibraryPath("fake_gpu") + ":" +
                            test::LibraryPath("fake_nvml");
  std::map<std::string, std::string> environment = {
      {"LD_LIBRARY_PATH", fakes}};
  environment.insert(more.begin(), more.end());
  test::Process agent({test::ProgramPath("ucudnn-agent"), "--coordinator",
                       "127.0.0.1:1", "--cpu-devices", "0"},
                      folder / "log", environment);
  EXPECT_TRUE(test::WaitUntil([&] {
    return test::FileText(folder / "log").find("register_failed") !=
           std::string::npos;
  })) << test::FileText(folder / "log");
  return test::FileText(folder / "log");
}

TEST(AgentCliTest, SaysWhatIsNotKnownOfAGpuWithoutItsManagementLibrary) {
  const std::string id = "id=GPU-07070707-0707-0707-0707-070707070707";
  EXPECT_THAT(LogOnFakeGpu({}),
              AllOf(HasSubstr("event=device " + id),
                    ::testing::Not(HasSubstr("gpu_not_watched"))));
  EXPECT_THAT(LogOnFakeGpu({{"FAKE_NVML_MISMATCH", "1"}}),
              AllOf(HasSubstr("event=device " + id),
                    HasSubstr("event=gpu_not_watched " + id),
                    HasSubstr("Driver/library version mismatch"),
                    HasSubstr("other processes")));
}
#endif

}  // namespace
}  // namespace ucudnn
