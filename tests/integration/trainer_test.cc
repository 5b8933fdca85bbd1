// ucudnn-train as a job of real ranks with the real daemons: plans that are
// adopted while it trains, and a rank that is killed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <functional>

#include "client/train/checkpoint.h"
#include "tests/integration/cluster.h"
#include "tests/support/mpirun.h"
#include "tests/support/paths.h"

namespace ucudnn::test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

constexpr const char* kTrained =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "a,3,32,32,16,3,3,1,1,1,1,1\n"
    "b,16,32,32,16,3,3,1,1,1,1,1\n"
    "c,16,8,8,10,1,1,0,0,1,1,1\n";

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() {
    std::ofstream(folder_ / "net.csv") << kTrained;
    cluster_.StartCoordinators();
    cluster_.StartAgent();
    EXPECT_EQ(
        cluster_.Ucudnn({"networks", "put", "net", folder_ / "net.csv"}).status,
        0);
    // Measured before, so that jobs wait for nothing.
    const Finished plan =
        cluster_.Ucudnn({"plan", "--network", "net", "--batch", "16", "--ranks",
                         "2", "--memory-budget", "1MiB"});
    EXPECT_EQ(plan.status, 0) << plan.err << cluster_.Log();
  }

  std::vector<std::string> Command(int ranks,
                                   const std::vector<std::string>& more) const {
    std::vector<std::string> command = {
        "mpirun",
        "-n",
        std::to_string(ranks),
        "sh",
        "-c",
        "echo $$ >" + (folder_ / "pid_") +
            "$OMPI_COMM_WORLD_RANK; exec \"$@\" >>" + (folder_ / "out.json"),
        "sh",
        test::ProgramPath("ucudnn-train"),
        "--network",
        folder_ / "net.csv",
        "--batch",
        "16",
        "--rate",
        "0.0001",
        "--threads",
        "1",
        "-o",
        "json"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  // With the coordinator's plans.
  void Start(const std::vector<std::string>& more) {
    std::map<std::string, std::string> environment = cluster_.JobEnvironment();
    environment.merge(Variables());
    std::ofstream(folder_ / "out.json").close();
    std::vector<std::string> arguments = {"--wait", "100"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    job_ = Process(Command(2, arguments), folder_ / "job.log", environment);
  }

  // What the job's only rank reports without a coordinator or a budget.
  json TrainAlone(std::int64_t steps) {
    std::map<std::string, std::string> environment = Variables();
    environment["UCUDNN_COORDINATOR"] = "";
    std::ofstream(folder_ / "out.json").close();
    Process alone(Command(1, {"--steps", std::to_string(steps)}),
                  folder_ / "job.log", environment);
    EXPECT_EQ(alone.Wait(), 0) << Story();
    return Report();
  }

  std::map<std::string, std::string> Variables() const {
    std::map<std::string, std::string> variables = RankEnvironment();
    variables.merge(std::map<std::string, std::string>{
        {"UCUDNN_CACHE_DIR", folder_ / "cache"},
        {"UCUDNN_PLAN_FILE", ""},
        {"CUDA_VISIBLE_DEVICES", ""},
        {"OMP_WAIT_POLICY", "passive"}});
    return variables;
  }

  json Report() const {
    return json::parse(FileText(folder_ / "out.json"), nullptr, false);
  }

  void Signal(int rank, int signal) const {
    const std::string pid = FileText(folder_ / ("pid_" + std::to_string(rank)));
    kill(static_cast<pid_t>(std::stol(pid)), signal);
  }

  static bool Within(const std::function<bool()>& condition) {
    return WaitUntil(condition, std::chrono::minutes(2));
  }

  // The newest job that the coordinator knows.
  json Job() {
    const json jobs = cluster_.UcudnnJson({"jobs"});
    if (jobs.empty()) return json::object();
    return cluster_.UcudnnJson({"show", "job", jobs[0]["id"]});
  }

  // Waits until both ranks report steps of this revision; returns their batches
  // by its plan.
  std::vector<int> Adopted(int revision) {
    std::vector<int> batches;
    EXPECT_TRUE(Within([&] {
      const json job = Job();
      if (!job.contains("ranks") || !job.contains("plan_id")) return false;
      int ranks = 0;
      for (const json& rank : job["ranks"]) {
        for (const json& steps : rank["steps"]) {
          if (steps["revision"] == revision && steps["count"] > 3) ++ranks;
        }
      }
      const json plan =
          cluster_.UcudnnJson({"show", "plan", job["plan_id"].dump()});
      if (ranks != 2 || !plan.contains("ranks")) return false;
      for (const json& rank : plan["ranks"]) batches.push_back(rank["batch"]);
      return true;
    })) << Job().dump()
        << Story();
    return batches;
  }

  void Replan(const std::vector<std::string>& change) {
    std::vector<std::string> command = {"replan", Job()["id"]};
    command.insert(command.end(), change.begin(), change.end());
    const Finished replan = cluster_.Ucudnn(command);
    EXPECT_EQ(replan.status, 0) << replan.err << Story();
  }

  std::string Story() const {
    return FileText(folder_ / "job.log") + "\nlog:\n" + cluster_.Log();
  }

  // That these are the losses of one process, from that step on, within what
  // rounding explains.
  void ExpectAsAlone(const std::vector<double>& losses, std::size_t first) {
    const json alone =
        TrainAlone(static_cast<std::int64_t>(first + losses.size()));
    const std::vector<double> expected = alone["losses"];
    ASSERT_EQ(expected.size(), first + losses.size());
    double largest = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      const double other = expected[first + i];
      largest = std::max(largest, std::abs(losses[i] - other) / other);
    }
    EXPECT_LT(largest, 1e-3) << "of " << losses.size() << " steps";
  }

  TemporaryFolder folder_;
  Cluster cluster_;
  Process job_;
};

TEST_F(TrainerTest, TellsTheCoordinatorWhichPlanItCannotTake) {
  Start({"--steps", "1000000", "--memory-budget", "8MiB"});
  ASSERT_THAT(Adopted(1), ElementsAre(8, 8));
  Replan({"--batch", "12"});
  const auto rejected = [&] {
    const json job = Job();
    return job["revisions"].size() == 2
               ? job["revisions"][1]["rejected"].get<std::string>()
               : std::string();
  };
  ASSERT_TRUE(WaitUntil([&] { return !rejected().empty(); })) << Story();
  EXPECT_THAT(rejected(), ::testing::HasSubstr("this job keeps 16"));
  EXPECT_EQ(Job()["revision"], 1);
  EXPECT_EQ(Job()["request"]["batch"], 16);
}

TEST_F(TrainerTest, AdoptsPlansBetweenStepsWithoutAChangeOfWhatItLearns) {
  Start({"--steps", "1000000", "--memory-budget", "8MiB"});
  ASSERT_THAT(Adopted(1), ElementsAre(8, 8));
  // Less than rank 1 has used until then.
  Replan({"--memory-budget", "8MiB,500KiB"});
  const std::vector<int> unlike = Adopted(2);
  ASSERT_EQ(unlike.size(), 2U);
  EXPECT_GE(unlike[0], unlike[1]);
  // A rank without images, and the same rank with images again: it then has the
  // parameters of the one that went on.
  Replan({"--exclude-ranks", "0"});
  EXPECT_THAT(Adopted(3), ElementsAre(0, 16));
  Replan({"--include-ranks", "0"});
  EXPECT_EQ(Adopted(4), unlike);
  // A mini-batch that the job cannot change.
  Replan({"--batch", "8"});
  ASSERT_TRUE(Within([&] {
    return FileText(folder_ / "job.log").find("the job keeps its plan") !=
           std::string::npos;
  })) << Story();
  Signal(0, SIGTERM);
  EXPECT_EQ(job_.Wait(), 128 + SIGTERM) << Story();

  const json report = Report();
  ASSERT_TRUE(report.is_object()) << Story();
  EXPECT_EQ(report["source"], "coordinator") << report["reason"];
  for (std::size_t r = 0; r < 2; ++r) {
    const json& rank = report["ranks"][r];
    EXPECT_EQ(rank["batch"], unlike[r]);
    EXPECT_EQ(rank["budget_bytes"], r == 0 ? 8 << 20 : 500 << 10);
    EXPECT_LE(rank["peak_bytes"], rank["budget_bytes"]);
  }
  ExpectAsAlone(report["losses"], 0);
}

TEST_F(TrainerTest, GoesOnFromItsCheckpointAfterARankWasKilled) {
  const std::string file = folder_ / "net.ckpt";
  const std::vector<std::string> common = {"--memory-budget", "8MiB,4MiB",
                                           "--checkpoint", file};
  std::vector<std::string> first = common;
  first.insert(first.end(), {"--steps", "1000000", "--checkpoint-every", "5"});
  Start(first);
  ASSERT_TRUE(Within([&] { return !FileText(file).empty(); })) << Story();
  Adopted(1);
  Signal(1, SIGKILL);
  EXPECT_NE(job_.Wait(), 0);
  EXPECT_TRUE(Within([&] { return Job()["state"] == "lost"; })) << Story();

  const auto kept = train::DecodeCheckpoint(FileText(file), file);
  ASSERT_TRUE(kept) << kept.error().message;
  std::vector<std::string> rest = common;
  rest.insert(rest.end(),
              {"--resume", "--steps", std::to_string(kept->steps + 5)});
  Start(rest);
  EXPECT_EQ(job_.Wait(), 0) << Story();
  const json report = Report();
  ASSERT_TRUE(report.is_object()) << Story();
  EXPECT_EQ(report["first_step"], kept->steps);
  ExpectAsAlone(report["losses"], static_cast<std::size_t>(kept->steps));
}

}  // namespace
}  // namespace ucudnn::test
