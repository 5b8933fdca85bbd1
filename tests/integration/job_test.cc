// Jobs of real MPI ranks with real daemons: their reports, plans that they
// adopt together, and coordinators and ranks that are killed at any moment.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/service/host.h"
#include "tests/integration/cluster.h"
#include "tests/support/mpirun.h"
#include "tests/support/paths.h"
#include "ucudnn/ucudnn.h"

namespace ucudnn::test {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kJobNetwork =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,8,8,4,3,3,1,1,1,1,1\n"
    "conv2,4,8,8,4,3,3,1,1,1,1,1\n";

// Each rank notices a lost one after this time, not sooner.
constexpr int kAgreeMs = 1500;
// The slack for a busy machine on every bound.
constexpr int kSlackMs = 8000;

class JobTest : public ::testing::Test {
 protected:
  JobTest() { std::ofstream(folder_ / "tiny.csv") << kJobNetwork; }

  // Starts a job; `extra` are options of the session. A rank that dies does not
  // end the others.
  void Start(int ranks, const std::vector<std::string>& extra = {}) {
    std::vector<std::string> command = {
        "mpirun",
        "--enable-recovery",
        "-n",
        std::to_string(ranks),
        test::ProgramPath("job_ranks"),
        folder_.path(),
        "network=tiny",
        "network_file=" + (folder_ / "tiny.csv"),
        "batch=4",
        "device=cpu:1",
        "workspace_limit=1MiB",
        "job_name=train",
        "agree_within_ms=" + std::to_string(kAgreeMs)};
    command.insert(command.end(), extra.begin(), extra.end());
    std::map<std::string, std::string> environment = cluster_.JobEnvironment();
    environment.merge(RankEnvironment());
    environment.merge(std::map<std::string, std::string>{
        {"UCUDNN_CACHE_DIR", folder_ / "cache"},
        {"OMP_WAIT_POLICY", "passive"}});
    job_ = Process(command, folder_ / "job.log", environment);
  }

  json Rank(int rank) const {
    return json::parse(
        FileText(folder_ / ("rank" + std::to_string(rank) + ".json")), nullptr,
        /*allow_exceptions=*/false);
  }
  int Steps(int rank) const {
    const json state = Rank(rank);
    return state.contains("steps") ? state["steps"].get<int>() : -1;
  }
  bool Failed(int rank) const { return Rank(rank).contains("status"); }
  pid_t Pid(int rank) const {
    const std::string text =
        FileText(folder_ / ("pid_" + std::to_string(rank)));
    return text.empty() ? 0 : static_cast<pid_t>(std::stol(text));
  }
  // Waits until each rank has run this many more steps.
  void AwaitSteps(int ranks, int more) {
    for (int r = 0; r < ranks; ++r) {
      const int before = std::max(Steps(r), 0);
      ASSERT_TRUE(WaitUntil([&] { return Steps(r) >= before + more; }))
          << Story();
    }
  }
  void StopAndWait() {
    std::ofstream(folder_ / "stop") << "";
    EXPECT_EQ(job_.Wait(), 0) << Story();
  }

  // The only job that the coordinator knows.
  json Job() {
    const json jobs = cluster_.UcudnnJson({"jobs"});
    if (jobs.size() != 1) return json::object();
    return cluster_.UcudnnJson({"show", "job", jobs[0]["id"]});
  }
  std::string JobState() {
    const json job = Job();
    return job.contains("state") ? job["state"].get<std::string>() : "none";
  }
  std::string Story() const {
    return FileText(folder_ / "job.log") + "\nlog:\n" + cluster_.Log() +
           "\nrank 0: " + FileText(folder_ / "rank0.json") +
           "\nrank 1: " + FileText(folder_ / "rank1.json");
  }

  TemporaryFolder folder_;
  Cluster cluster_;
  Process job_;
};

TEST_F(JobTest, AdoptsANewPlanOnAllRanksTogether) {
  cluster_.StartCoordinators();
  cluster_.StartAgent();
  if (Cluster::tls()) {  // jobs may not, with roles
    ASSERT_EQ(cluster_.Ucudnn({"networks", "put", "tiny", folder_ / "tiny.csv"})
                  .status,
              0);
  }
  Start(2, {"await_measurements_ms=60000"});
  AwaitSteps(2, 20);
  EXPECT_EQ(Rank(0)["source"], "coordinator") << Story();
  EXPECT_EQ(Rank(0)["batch"].get<int>() + Rank(1)["batch"].get<int>(), 4);
  ASSERT_TRUE(WaitUntil([&] {
    const json job = Job();
    return job.contains("ranks") && job["ranks"].size() == 2 &&
           std::all_of(job["ranks"].begin(), job["ranks"].end(),
                       [](const json& rank) {
                         return !rank["steps"].empty() &&
                                rank["steps"][0]["first_median_us"] > 0;
                       });
  })) << Story();
  json job = Job();
  EXPECT_EQ(job["name"], "train");
  EXPECT_EQ(job["state"], "running");
  EXPECT_EQ(job["id"], Rank(1)["job"]);
  EXPECT_EQ(job["ranks"][1]["device_kind"], Rank(1)["device_kind"]);
  EXPECT_EQ(job["ranks"][0]["steps"][0]["median_us"], 2000.0);
  EXPECT_EQ(job["ranks"][0]["steps"][0]["first_median_us"], 2000.0);
  // Steps of 2 ms consist of much more than these convolutions.
  EXPECT_EQ(job["drift"], json::array());

  const Finished replan = cluster_.Ucudnn(
      {"replan", job["id"], "--batch", "6", "--workspace-limit", "512KiB"});
  ASSERT_EQ(replan.status, 0) << replan.err << Story();
  EXPECT_THAT(replan.out, HasSubstr("revision 2 of job"));
  // It shows the progress of the measurements that it waits for.
  EXPECT_THAT(replan.err, ContainsRegex("[0-9]+ of [0-9]+ measured"));
  ASSERT_TRUE(WaitUntil([&] {
    return Rank(0)["revision"] == 2 && Rank(1)["revision"] == 2;
  })) << Story();
  EXPECT_EQ(Rank(0)["global_batch"], 6);
  EXPECT_EQ(Rank(0)["batch"].get<int>() + Rank(1)["batch"].get<int>(), 6);
  AwaitSteps(2, 10);
  ASSERT_TRUE(WaitUntil([&] { return Job()["revision"] == 2; })) << Story();
  job = Job();
  EXPECT_EQ(job["revisions"][1]["reason"], "batch 6, 512KiB for each kernel");
  EXPECT_GT(job["revisions"][1]["adopted_ms"], 0);
  EXPECT_THAT(cluster_.Ucudnn({"show", "job", job["id"]}).out,
              Not(HasSubstr("not adopted yet")));

  StopAndWait();
  EXPECT_EQ(JobState(), "finished");
  for (int r = 0; r < 2; ++r) {
    EXPECT_FALSE(Rank(r).contains("torn")) << Story();
    EXPECT_FALSE(Failed(r)) << Story();
  }
  EXPECT_EQ(cluster_.Ucudnn({"replan", job["id"], "--batch", "8"}).status, 3);
}

TEST_F(JobTest, RunsMemoryPlansOfUnlikeBudgetsAndReplansThem) {
  cluster_.StartCoordinators();
  cluster_.StartAgent();
  if (Cluster::tls()) {  // jobs may not, with roles
    ASSERT_EQ(cluster_.Ucudnn({"networks", "put", "tiny", folder_ / "tiny.csv"})
                  .status,
              0);
  }
  Start(2, {"await_measurements_ms=60000", "memory_budget=1MiB,400KiB",
            "momentum=1"});
  AwaitSteps(2, 5);
  EXPECT_EQ(Rank(0)["source"], "coordinator") << Story();
  const auto batches = [&] {
    int sum = 0;
    for (int r = 0; r < 2; ++r) {
      const json rank = Rank(r);
      const json& plan = rank["memory_plan"];
      sum += rank["batch"].get<int>();
      if (rank["batch"] == 0) continue;
      EXPECT_EQ(plan["batch"], rank["batch"]) << Story();
      EXPECT_EQ(plan["budget_bytes"], r == 0 ? 1 << 20 : 400 << 10);
      EXPECT_LE(plan["peak_bytes"], plan["budget_bytes"]);
      EXPECT_THAT(plan["graph"].dump(), HasSubstr("conv1.V"));
    }
    return sum;
  };
  EXPECT_EQ(batches(), 4);

  const json job = Job();
  const Finished replan =
      cluster_.Ucudnn({"replan", job["id"], "--batch", "6"});
  ASSERT_EQ(replan.status, 0) << replan.err << Story();
  ASSERT_TRUE(WaitUntil([&] {
    return Rank(0)["revision"] == 2 && Rank(1)["revision"] == 2;
  })) << Story();
  EXPECT_EQ(batches(), 6);
  const std::string id = std::to_string(Job()["plan_id"].get<int>());
  EXPECT_THAT(cluster_.Ucudnn({"show", "plan", id}).out,
              HasSubstr("400 KiB to 1.00 MiB of memory"));
  StopAndWait();
  for (int r = 0; r < 2; ++r) EXPECT_FALSE(Failed(r)) << Story();
}

// Large enough that half of the batch takes less time than all of it.
constexpr const char* kLargerNetwork =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,16,32,32,16,3,3,1,1,1,1,1\n"
    "conv2,16,32,32,16,3,3,1,1,1,1,1\n";

TEST_F(JobTest, LosesNothingWhenANodeIsDrainedAndResumed) {
  std::ofstream(folder_ / "tiny.csv") << kLargerNetwork;
  cluster_.StartCoordinators();
  // CPU devices are named after their agent, and those of ranks after the host:
  // this is rank 0's. The agent sees another host name, or all ranks were on
  // the node.
  const std::string node = HostName();
  Process agent({"/usr/bin/unshare", "--map-root-user", "--uts", "/bin/sh",
                 "-c", "hostname elsewhere && exec \"$@\"", "sh",
                 test::ProgramPath("ucudnn-agent"), "--coordinator",
                 cluster_.address(), "--id", node, "--repeats", "3",
                 "--cpu-devices", "1", "--cpu-threads", "1"},
                folder_ / "agent.log", Cluster::AgentEnvironment(node));
  ASSERT_TRUE(WaitUntil([&] {
    const json devices = cluster_.UcudnnJson({"devices"});
    return devices.size() == 1 && devices[0]["state"] == "idle";
  })) << FileText(folder_ / "agent.log");
  ASSERT_EQ(
      cluster_.Ucudnn({"networks", "put", "tiny", folder_ / "tiny.csv"}).status,
      0);
  // Also what one rank alone needs: a node that is drained measures nothing.
  const Finished measured =
      cluster_.Ucudnn({"measure", "--network", "tiny", "--batch", "4",
                       "--workspace-limit", "1MiB"});
  ASSERT_EQ(measured.status, 0) << measured.err;
  Start(2, {"auto_replan=1", "await_measurements_ms=60000"});
  AwaitSteps(2, 5);
  ASSERT_EQ(Rank(0)["source"], "coordinator") << Story();
  ASSERT_EQ(Rank(0)["batch"], 2) << Story();
  ASSERT_TRUE(WaitUntil([&] { return JobState() == "running"; })) << Story();
  // Waits until both ranks run this revision, and have run some steps of it.
  const auto adopts = [&](int revision) {
    ASSERT_TRUE(WaitUntil([&] {
      return Rank(0)["revision"] == revision && Rank(1)["revision"] == revision;
    })) << Story();
    AwaitSteps(2, 5);
    EXPECT_EQ(Rank(0)["batch"].get<int>() + Rank(1)["batch"].get<int>(), 4);
  };

  const Finished drained =
      cluster_.Ucudnn({"drain", node, "--reason", "new fans"});
  ASSERT_EQ(drained.status, 0) << drained.err;
  adopts(2);
  EXPECT_EQ(Rank(0)["batch"], 0) << Story();
  // The sum over all images is that of rank 1, whose gradients are 2.
  EXPECT_EQ(Rank(0)["mean"], 2.0);
  EXPECT_EQ(Rank(1)["mean"], 2.0);

  ASSERT_EQ(cluster_.Ucudnn({"resume", node}).status, 0);
  adopts(3);
  EXPECT_EQ(Rank(0)["batch"], 2) << Story();
  EXPECT_EQ(Rank(0)["mean"], 1.5);
  ASSERT_TRUE(WaitUntil([&] { return Job()["revision"] == 3; })) << Story();

  StopAndWait();
  const json job = Job();
  EXPECT_EQ(job["state"], "finished");
  EXPECT_THAT(job["revisions"][2]["reason"].get<std::string>(),
              HasSubstr("is resumed"));
  for (int r = 0; r < 2; ++r) {
    EXPECT_FALSE(Rank(r).contains("torn")) << Story();
    EXPECT_FALSE(Failed(r)) << Story();
    // Each step was reported once.
    int reported = 0;
    for (const json& steps : job["ranks"][r]["steps"]) {
      reported += steps["count"].get<int>();
    }
    EXPECT_EQ(reported, Steps(r)) << Story();
  }
}

TEST_F(JobTest, ContinuesWhileTheCoordinatorIsDead) {
  cluster_.StartCoordinators();
  Start(2);
  AwaitSteps(2, 5);
  ASSERT_TRUE(WaitUntil([&] { return JobState() == "running"; })) << Story();
  cluster_.KillCoordinators();
  AwaitSteps(2, 50);
  cluster_.StartCoordinators();
  // The steps of the meantime are reported afterwards.
  const int steps = Steps(1);
  ASSERT_TRUE(WaitUntil([&] {
    const json job = Job();
    return job.contains("ranks") && !job["ranks"][1]["steps"].empty() &&
           job["ranks"][1]["steps"][0]["count"] >= steps;
  })) << Story();
  cluster_.KillCoordinators();
  StopAndWait();
  for (int r = 0; r < 2; ++r) {
    EXPECT_LT(Rank(r)["slowest_ms"], kAgreeMs) << Story();
    EXPECT_LT(Rank(r)["finalize_ms"], 5000) << Story();
    EXPECT_EQ(Rank(r)["source"], "undivided");
  }
}

TEST_F(JobTest, KeepsItsPlanAndItsStepsWhenTheDatabaseIsLost) {
  cluster_.StartCoordinators();
  cluster_.StartAgent();
  const auto put_network = [&] {
    return cluster_.Ucudnn({"networks", "put", "tiny", folder_ / "tiny.csv"})
        .status;
  };
  ASSERT_EQ(put_network(), 0);
  Start(2, {"await_measurements_ms=60000"});
  ASSERT_TRUE(WaitUntil([&] { return JobState() == "running"; })) << Story();
  const std::string id = Job()["id"];
  ASSERT_EQ(cluster_.Ucudnn({"replan", id, "--batch", "6"}).status, 0);
  ASSERT_TRUE(WaitUntil([&] { return Job()["revision"] == 2; })) << Story();
  cluster_.KillCoordinators();
  cluster_.LoseDatabase();
  AwaitSteps(2, 20);
  cluster_.StartCoordinators();
  const auto reported = [](const json& rank) {
    return rank["steps"].empty() ? 0 : rank["steps"].back()["count"].get<int>();
  };
  ASSERT_TRUE(WaitUntil([&] {
    const json job = Job();
    return job.contains("ranks") && reported(job["ranks"][0]) > 20 &&
           reported(job["ranks"][1]) > 20;
  })) << Story();
  const json job = Job();
  EXPECT_EQ(job["id"], id);
  EXPECT_EQ(job["revision"], 2);
  EXPECT_EQ(job["request"]["batch"], 6);
  EXPECT_EQ(job["revisions"][0]["reason"], "the job registered again");
  // It goes on from there.
  ASSERT_EQ(put_network(), 0);
  const Finished replan = cluster_.Ucudnn({"replan", id, "--batch", "8"});
  ASSERT_EQ(replan.status, 0) << replan.err << Story();
  ASSERT_TRUE(WaitUntil([&] { return Job()["revision"] == 3; })) << Story();
  StopAndWait();
  EXPECT_EQ(JobState(), "finished");
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(Rank(r)["revision"], 3);
    EXPECT_EQ(Rank(r)["global_batch"], 8);
    EXPECT_FALSE(Rank(r).contains("torn")) << Story();
  }
}

TEST_F(JobTest, StartsIfTheCoordinatorIsKilledDuringTheRequest) {
  cluster_.StartCoordinators();
  cluster_.SignalCoordinators(SIGSTOP);
  Start(2, {"ask_within_ms=2000"});
  // Both ranks are in init: rank 0 calls the coordinator, rank 1 waits for rank
  // 0.
  ASSERT_TRUE(WaitUntil([&] { return Pid(0) > 0 && Pid(1) > 0; })) << Story();
  EXPECT_EQ(Steps(0), -1);
  cluster_.KillCoordinators();
  AwaitSteps(2, 5);
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(Rank(r)["source"], "undivided") << Story();
    EXPECT_LT(Rank(r)["init_ms"], 2000 + kSlackMs) << Story();
  }
  StopAndWait();
}

TEST_F(JobTest, TellsTheOthersWhenARankIsKilled) {
  cluster_.StartCoordinators();
  Start(3);
  AwaitSteps(3, 5);
  ASSERT_TRUE(WaitUntil([&] { return JobState() == "running"; })) << Story();
  kill(Pid(1), SIGKILL);
  ASSERT_TRUE(WaitUntil([&] { return Failed(0) && Failed(2); })) << Story();
  for (const int r : {0, 2}) {
    EXPECT_EQ(Rank(r)["status"], UCUDNN_DEADLINE_EXCEEDED) << Story();
    EXPECT_THAT(Rank(r)["error"].get<std::string>(),
                HasSubstr("rank 1 has ended"));
    EXPECT_LT(Rank(r)["error_after_ms"], kAgreeMs + kSlackMs);
  }
  job_.Wait();
  EXPECT_TRUE(WaitUntil([&] { return JobState() == "lost"; })) << Story();
}

TEST_F(JobTest, TellsTheOthersWhenARankIsKilledDuringStartup) {
  cluster_.StartCoordinators();
  cluster_.SignalCoordinators(SIGSTOP);
  Start(3, {"ask_within_ms=1500"});
  ASSERT_TRUE(WaitUntil([&] { return Pid(0) > 0 && Pid(1) > 0 && Pid(2) > 0; }))
      << Story();
  kill(Pid(2), SIGKILL);
  ASSERT_TRUE(WaitUntil([&] { return Failed(0) && Failed(1); })) << Story();
  for (const int r : {0, 1}) {
    EXPECT_EQ(Rank(r)["status"], UCUDNN_DEADLINE_EXCEEDED) << Story();
    EXPECT_LT(Rank(r)["error_after_ms"], 1500 + 3 * kAgreeMs + kSlackMs);
  }
  job_.Wait();
}

TEST_F(JobTest, AveragesGradientsOverTheWholeBatchWithoutACoordinator) {
  Start(2, {"coordinators=", "batch=3"});
  AwaitSteps(2, 3);
  // Two images with a gradient of 1, one with 2.
  EXPECT_NEAR(Rank(0)["mean"].get<double>(), 4.0 / 3, 1e-9) << Story();
  EXPECT_EQ(Rank(1)["mean"], Rank(0)["mean"]);
  StopAndWait();
}

}  // namespace
}  // namespace ucudnn::test
