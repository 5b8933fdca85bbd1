// What operators see and stop, with the real command and a real coordinator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "tests/integration/cluster.h"
#include "tests/support/paths.h"

namespace ucudnn::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kKind[] = "NVIDIA H200/132u/139GiB/cudnn-9.19";
constexpr const char* kNetwork =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,8,8,8,3,3,1,1,1,1,1\n";

class OperatorsTest : public ::testing::Test {
 protected:
  OperatorsTest() {
    cluster_.StartCoordinators();
    const std::string csv = cluster_.folder() / "tiny.csv";
    std::ofstream(csv) << kNetwork;
    EXPECT_EQ(cluster_.Ucudnn({"networks", "put", "tiny", csv}).status, 0);
  }

  // `ucudnn plan` of the network on a kind of which there is no device.
  static std::vector<std::string> Plan(std::vector<std::string> more) {
    std::vector<std::string> command = {
        "plan", "--network",     "tiny", "--batch", "8", "--workspace-limit",
        "1MiB", "--device-kind", kKind};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  std::size_t Tasks(const std::string& state) const {
    return cluster_.UcudnnJson({"tasks", "--state", state}).size();
  }

  Cluster cluster_;
};

TEST_F(OperatorsTest, CancelACampaignAndSeeWhoDidAndWhy) {
  const Finished asked =
      cluster_.Ucudnn(Plan({"--wait-for-device", "--no-wait"}));
  EXPECT_EQ(asked.status, 0) << asked.err;
  EXPECT_THAT(asked.err, HasSubstr("campaign 1, 8 to go; `ucudnn cancel 1`"));
  EXPECT_EQ(Tasks("pending"), 8U);
  const json campaigns = cluster_.UcudnnJson({"campaigns"});
  ASSERT_EQ(campaigns.size(), 1U);
  EXPECT_EQ(campaigns[0]["state"], "running");
  EXPECT_EQ(cluster_.UcudnnJson({"tasks", "--campaign", "1"}).size(), 8U);
  const Finished cancelled =
      cluster_.Ucudnn({"cancel", "1", "--reason", "wrong batch"});
  EXPECT_EQ(cancelled.status, 0) << cancelled.err;
  EXPECT_EQ(cancelled.out, "8 measurements cancelled\n");
  EXPECT_EQ(Tasks("pending"), 0U);
  EXPECT_EQ(Tasks("cancelled"), 8U);
  EXPECT_EQ(cluster_.UcudnnJson({"campaigns"})[0]["state"], "cancelled");
  const json history = cluster_.UcudnnJson({"history"});
  ASSERT_EQ(history.size(), 1U);
  EXPECT_EQ(history[0]["object"], "campaign 1");
  EXPECT_EQ(history[0]["reason"], "wrong batch");
  EXPECT_THAT(history[0]["who"].get<std::string>(),
              HasSubstr(Cluster::tls() ? "admin test" : "@"));
  EXPECT_GT(history[0]["made_ms"], 0);
  // Asked again, they are measured after all.
  EXPECT_EQ(cluster_.Ucudnn(Plan({"--wait-for-device", "--no-wait"})).status,
            0);
  EXPECT_EQ(Tasks("pending"), 8U);
  const json tasks = cluster_.UcudnnJson({"tasks"});
  EXPECT_EQ(cluster_
                .Ucudnn({"cancel", "--task", tasks[0]["id"].dump(), "--task",
                         tasks[1]["id"].dump()})
                .out,
            "2 measurements cancelled\n");
  EXPECT_EQ(cluster_.Ucudnn({"cancel", "--kind", kKind}).out,
            "6 measurements cancelled\n");
  EXPECT_EQ(cluster_.Ucudnn({"cancel"}).status, 2);
}

TEST_F(OperatorsTest, SeeTheCostBeforeAnythingIsRequested) {
  const Finished refused = cluster_.Ucudnn(Plan({}));
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.err, HasSubstr(kKind));
  EXPECT_THAT(refused.err, HasSubstr("--wait-for-device"));
  const Finished answer = cluster_.Ucudnn(Plan({"--dry-run"}));
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_THAT(answer.out,
              StartsWith("8 measurements: 0 made, 0 failed, 8 missing\n"));
  EXPECT_EQ(cluster_.UcudnnJson({"tasks"}), json::array());
  const Finished late =
      cluster_.Ucudnn(Plan({"--wait-for-device", "--timeout", "1"}));
  EXPECT_EQ(late.status, 4);
  EXPECT_THAT(late.err, HasSubstr("`ucudnn cancel 1` ends it"));
  EXPECT_THAT(late.err, HasSubstr("within 1 s"));
}

TEST_F(OperatorsTest, LeaveAndEndTheWaitOfOthers) {
  std::vector<std::string> command = {ProgramPath("ucudnn"), "--coordinator",
                                      cluster_.address()};
  const auto arguments = Plan({"--wait-for-device"});
  command.insert(command.end(), arguments.begin(), arguments.end());
  const std::string log = cluster_.folder() / "plan.log";
  Process left(command, log);
  ASSERT_TRUE(WaitUntil([&] { return Tasks("pending") == 8U; }));
  ASSERT_TRUE(WaitUntil([&] {
    return FileText(log).find("waiting for one") != std::string::npos;
  }));
  left.Signal(SIGINT);
  EXPECT_EQ(left.Wait(), 130);
  EXPECT_THAT(FileText(log),
              HasSubstr("the requested measurements continue: campaign 1, 8 to "
                        "go; `ucudnn cancel 1` ends it"));
  EXPECT_EQ(Tasks("pending"), 8U);
  const std::string other = cluster_.folder() / "other.log";
  Process waiting(command, other);
  ASSERT_TRUE(WaitUntil([&] {
    return FileText(other).find("waiting for one") != std::string::npos;
  })) << FileText(other);
  EXPECT_EQ(cluster_.Ucudnn({"cancel", "1", "--reason", "maintenance"}).status,
            0);
  EXPECT_EQ(waiting.Wait(), 3);
  EXPECT_THAT(FileText(other),
              HasSubstr("8 of 8 measurements were cancelled by"));
  EXPECT_THAT(FileText(other), HasSubstr("maintenance"));
}

TEST_F(OperatorsTest, AreRefusedMoreThanMayBeQueued) {
  EXPECT_EQ(cluster_.StopCoordinators(), 0);
  cluster_.StartCoordinators({"--max-queued-measurements", "4"});
  const Finished refused =
      cluster_.Ucudnn(Plan({"--wait-for-device", "--no-wait"}));
  EXPECT_EQ(refused.status, 4);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("8 measurements would be requested"),
                                 HasSubstr("up to 4 may be queued at once"),
                                 Not(HasSubstr("cannot be reached"))));
  EXPECT_EQ(cluster_.UcudnnJson({"tasks"}), json::array());
}

TEST_F(OperatorsTest, AreRefusedMoreThanACallerMayQueue) {
  EXPECT_EQ(cluster_.StopCoordinators(), 0);
  cluster_.StartCoordinators({"--max-queued-measurements-per-caller", "8"});
  const auto command = Plan({"--wait-for-device", "--no-wait"});
  auto more = command;
  more.insert(more.end(), {"--batch-policy", "all"});
  EXPECT_EQ(cluster_.Ucudnn(command).status, 0);
  const auto refused = [&] {
    const Finished asked = cluster_.Ucudnn(more);
    EXPECT_EQ(asked.status, 4);
    EXPECT_THAT(
        asked.err,
        AllOf(HasSubstr("8 measurements would be requested, and 8 "
                        "that " +
                        std::string(Cluster::tls() ? "admin test"
                                                   : "callers without a name")),
              HasSubstr("up to 8 may be queued at once for one "
                        "caller")));
  };
  refused();
  // What is queued is in the database.
  cluster_.KillCoordinators();
  cluster_.StartCoordinators({"--max-queued-measurements-per-caller", "8"});
  refused();
  if (!Cluster::tls()) return;
  const CredentialFiles bob = cluster_.TokenOf(Role::kOperator, "bob");
  const auto queued = [&] {
    std::vector<std::string> asked = {ProgramPath("ucudnn"), "--coordinator",
                                      cluster_.address()};
    asked.insert(asked.end(), more.begin(), more.end());
    return test::Run(asked, {{kTokenFileVariable, bob.token},
                             {kCertVariable, ""},
                             {kKeyVariable, ""}})
               .status == 0;
  };
  EXPECT_TRUE(WaitUntil(queued));
  EXPECT_EQ(Tasks("pending"), 16U);
}

TEST_F(OperatorsTest, RemoveWhatIsOld) {
  // Plans that no job has go after a while unless told otherwise.
  EXPECT_EQ(cluster_.Ucudnn({"prune", "--dry-run"}).status, 0);
  const Finished answer =
      cluster_.Ucudnn({"prune", "--dry-run", "--keep-jobs", "30"});
  EXPECT_EQ(answer.status, 0) << answer.err;
  EXPECT_THAT(answer.out, StartsWith("WOULD BE REMOVED"));
  EXPECT_EQ(cluster_.UcudnnJson({"history"}), json::array());
  EXPECT_EQ(cluster_.Ucudnn({"prune", "--keep-jobs", "30"}).status, 0);
  EXPECT_EQ(cluster_.UcudnnJson({"history"})[0]["what"], "prune");
}

TEST_F(OperatorsTest, RemoveNetworks) {
  EXPECT_EQ(
      cluster_.Ucudnn({"networks", "rm", "tiny", "--reason", "a test"}).out,
      "network tiny removed\n");
  EXPECT_EQ(cluster_.UcudnnJson({"networks"}), json::array());
  EXPECT_EQ(cluster_.UcudnnJson({"history"})[0]["reason"], "a test");
  EXPECT_EQ(cluster_.Ucudnn({"networks", "rm", "tiny"}).status, 1);
  EXPECT_EQ(cluster_.Ucudnn({"plans", "rm", "1"}).status, 1);
  EXPECT_EQ(cluster_.Ucudnn({"jobs", "rm", "1"}).status, 1);
}

}  // namespace
}  // namespace ucudnn::test
