#include "base/service/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <string>

#include "tests/support/notify_socket.h"

namespace ucudnn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Environment Of(const std::map<std::string, std::string>& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt
                                    : std::optional(found->second);
  };
}

TEST(SupervisorTest, TellsWhenTheDaemonServesAndStops) {
  test::NotifySocket manager;
  Supervisor supervisor(Of({{"NOTIFY_SOCKET", manager.address()}}));
  supervisor.Ready();
  supervisor.Alive();  // nobody watches
  supervisor.Stopping();
  EXPECT_THAT(manager.Received(), ElementsAre("READY=1", "STOPPING=1"));
}

TEST(SupervisorTest, ReachesAnAbstractAddress) {
  test::NotifySocket manager("@ucudnn-supervisor-test-" +
                             std::to_string(getpid()));
  Supervisor(Of({{"NOTIFY_SOCKET", manager.address()}})).Ready();
  EXPECT_THAT(manager.Received(), ElementsAre("READY=1"));
}

TEST(SupervisorTest, DoesNothingWhereNobodyListens) {
  Supervisor(Of({})).Ready();
  Supervisor(Of({{"NOTIFY_SOCKET", "/nowhere/notify"}})).Ready();
  Supervisor(Of({{"NOTIFY_SOCKET", std::string(500, 'x')}})).Ready();
}

TEST(SupervisorTest, TellsTheWatchdogFourTimesInItsInterval) {
  test::NotifySocket manager;
  Supervisor hourly(Of({{"NOTIFY_SOCKET", manager.address()},
                        {"WATCHDOG_USEC", "3600000000"},
                        {"WATCHDOG_PID", std::to_string(getpid())}}));
  hourly.Alive();
  hourly.Alive();
  EXPECT_THAT(manager.Received(), ElementsAre("WATCHDOG=1"));
  Supervisor quick(
      Of({{"NOTIFY_SOCKET", manager.address()}, {"WATCHDOG_USEC", "4000"}}));
  EXPECT_TRUE(test::WaitUntil([&] {
    quick.Alive();
    return manager.Received().size() == 4;
  }));
}

TEST(SupervisorTest, LeavesTheWatchdogToTheProcessThatIsWatched) {
  test::NotifySocket manager;
  Supervisor child(Of({{"NOTIFY_SOCKET", manager.address()},
                       {"WATCHDOG_USEC", "4000"},
                       {"WATCHDOG_PID", "1"}}));
  child.Alive();
  EXPECT_THAT(manager.Received(), IsEmpty());
}

}  // namespace
}  // namespace ucudnn
