// Three hosts, made of network namespaces: a coordinator over PostgreSQL on the
// first, on each of the others an agent and one of a job's two MPI ranks. While
// they measure and train, links fail as networks do, and heal: no measurement
// is lost, the job goes on, and all agents come back.
//
// Links are cut for a few seconds, with timeouts of seconds in the daemons'
// settings. UCUDNN_CUT_SECONDS=60 cuts them for longer, with the default
// settings: see minute.sh.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/integration/hosts/network.h"
#include "tests/support/mpirun.h"
#include "tests/support/paths.h"
#include "tests/support/postgres.h"
#include "tests/support/process.h"

namespace ucudnn::test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kCoordinator = 0;
constexpr std::size_t kNodes[] = {1, 2};
constexpr const char* kNetwork =
    "name,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,groups\n"
    "conv1,3,16,16,8,3,3,1,1,1,1,1\n"
    "conv2,8,16,16,16,3,3,1,1,1,1,1\n";

const Link kCut = {.loss = 1};

struct Fault {
  std::string name;
  std::function<void(Network&)> begin;
};

seconds CutFor() {
  const char* value = std::getenv("UCUDNN_CUT_SECONDS");
  return seconds(value == nullptr ? 4 : std::stoi(value));
}
// Whether the daemons have their default settings, and thus longer timeouts.
bool Long() { return CutFor() > seconds(10); }
// TCP tries again after as long as the link was cut.
seconds Patience() { return 3 * CutFor() + seconds(60); }

class HostsTest : public ::testing::TestWithParam<Fault> {
 protected:
  void SetUp() override {
    auto network = Network::Make(3);
    if (!network) GTEST_SKIP() << "no hosts: " << network.error().message;
    network_ = *std::move(network);
    auto postgres = ThrowawayPostgres::Start(ThrowawayPostgres::Disk::kFast);
    ASSERT_TRUE(postgres) << postgres.error().message;
    postgres_ = *std::move(postgres);
    StartCoordinator();
    for (const std::size_t node : kNodes) StartAgent(node);
    std::ofstream(folder_ / "tiny.csv") << kNetwork;
    ASSERT_EQ(Ucudnn({"networks", "put", "tiny", folder_ / "tiny.csv"}).status,
              0);
    ASSERT_TRUE(WaitUntil([&] { return AllOnline(); })) << Log();
  }

  void StartCoordinator() {
    std::vector<std::string> command = {ProgramPath("ucudnn-coord"),
                                        "serve",
                                        "--insecure",
                                        "--listen",
                                        Coordinator(),
                                        "--http",
                                        network_->Address(kCoordinator) + ":0",
                                        "--database",
                                        postgres_->url(),
                                        "--report-after-ms",
                                        "100",
                                        "--ready-file",
                                        folder_ / "ready"};
    if (!Long()) {
      command.insert(
          command.end(),
          {"--lease-ms", "2000", "--heartbeat-ms", "200", "--agent-timeout-ms",
           "2000", "--poll-after-ms", "50", "--job-timeout-ms", "2000"});
    }
    coordinator_ =
        Process(network_->On(kCoordinator, command), folder_ / "log");
    ASSERT_TRUE(WaitUntil([&] {
      return std::filesystem::exists(folder_ / "ready");
    })) << Log();
  }
  void StartAgent(std::size_t node) {
    agents_.emplace_back(
        network_->On(
            node, {ProgramPath("ucudnn-agent"), "--coordinator", Coordinator(),
                   "--id", network_->Name(node), "--repeats", "3",
                   "--cpu-devices", "1", "--cpu-threads", "1"}),
        folder_ / "log");
  }

  // What mpirun runs to start a process on another host.
  std::string RemoteShell() const {
    std::string path = folder_ / "shell";
    std::ofstream script(path);
    script << "#!/bin/sh\nhost=$1; shift\ncase $host in\n";
    for (const std::size_t node : kNodes) {
      script << network_->Address(node) << ") exec";
      for (const std::string& word :
           network_->On(node, {"sh", "-c", "\"$*\""})) {
        script << ' ' << word;
      }
      script << ";;\n";
    }
    script << "esac\nexit 1\n";
    script.close();
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  void StartJob() {
    std::map<std::string, std::string> environment = {
        {"UCUDNN_COORDINATOR", Coordinator()},
        {"UCUDNN_CACHE_DIR", folder_ / "cache"},
        {"OMP_WAIT_POLICY", "passive"},
        {"OMPI_MCA_orte_leave_session_attached", "1"},
        {"OMPI_MCA_plm_rsh_agent", RemoteShell()},
        {"OMPI_MCA_btl", "tcp,self"},
        {"OMPI_MCA_pml", "ob1"},
        {"OMPI_MCA_btl_tcp_if_include", "10.99.0.0/24"},
        {"OMPI_MCA_oob_tcp_if_include", "10.99.0.0/24"}};
    environment.merge(RankEnvironment());
    std::vector<std::string> command = {
        "mpirun",
        "-x",
        "UCUDNN_COORDINATOR",
        "-x",
        "UCUDNN_CACHE_DIR",
        "-x",
        "OMP_WAIT_POLICY",
        "-n",
        "2",
        "--host",
        network_->Address(1) + ":1," + network_->Address(2) + ":1",
        ProgramPath("job_ranks"),
        folder_.path(),
        "network=tiny",
        "network_file=" + (folder_ / "tiny.csv"),
        "batch=4",
        "device=cpu:1",
        "workspace_limit=1MiB",
        "agree_within_ms=" + std::to_string(milliseconds(Patience()).count())};
    job_ = Process(network_->On(1, command), folder_ / "job.log", environment);
  }
  int Steps(int rank) const {
    const json state = json::parse(
        FileText(folder_ / ("rank" + std::to_string(rank) + ".json")), nullptr,
        /*allow_exceptions=*/false);
    return state.contains("steps") ? state["steps"].get<int>() : -1;
  }

  std::string Coordinator() const {
    return network_->Address(kCoordinator) + ":7460";
  }
  std::vector<std::string> CommandOf(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(),
                     {ProgramPath("ucudnn"), "--coordinator", Coordinator()});
    return network_->On(kCoordinator, arguments);
  }
  Finished Ucudnn(const std::vector<std::string>& arguments) const {
    return test::Run(CommandOf(arguments));
  }
  json UcudnnJson(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"-o", "json"});
    return json::parse(Ucudnn(arguments).out, nullptr,
                       /*allow_exceptions=*/false);
  }
  bool AllOnline() const {
    const json nodes = UcudnnJson({"nodes"});
    return nodes.size() == 2 && nodes[0]["state"] == "online" &&
           nodes[1]["state"] == "online";
  }
  json Job() const {
    const json jobs = UcudnnJson({"jobs"});
    return jobs.size() == 1 ? UcudnnJson({"show", "job", jobs[0]["id"]})
                            : json::object();
  }
  int Done() const {
    const json status = UcudnnJson({"status"});
    return status.contains("tasks_done") ? status["tasks_done"].get<int>() : -1;
  }
  std::string Log() const {
    return FileText(folder_ / "log") + FileText(folder_ / "job.log") +
           FileText(folder_ / "measure.log");
  }

  TemporaryFolder folder_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<ThrowawayPostgres> postgres_;
  Process coordinator_;
  std::vector<Process> agents_;
  Process job_;
};

TEST_P(HostsTest, NothingIsLostWhileLinksFail) {
  StartJob();
  ASSERT_TRUE(WaitUntil([&] { return Steps(0) >= 5 && Steps(1) >= 5; }))
      << Log();
  Process measure(
      CommandOf({"measure", "--network", "tiny", "--batch", "12",
                 "--workspace-limit", "1MiB", "--batch-policy", "all"}),
      folder_ / "measure.log");
  ASSERT_TRUE(WaitUntil([&] { return Done() >= 5; })) << Log();
  const int done = Done();

  GetParam().begin(*network_);
  const auto healed = std::chrono::steady_clock::now() + CutFor();
  ASSERT_TRUE(WaitUntil(
      [&] { return std::chrono::steady_clock::now() >= healed; }, Patience()));
  EXPECT_GT(network_->lost(), 0);
  network_->Heal();

  // Nothing went away, and everything that was asked for is measured.
  EXPECT_GE(Done(), done);
  EXPECT_EQ(measure.Wait(Patience() + seconds(120)), 0) << Log();
  const json status = UcudnnJson({"status"});
  EXPECT_EQ(status["tasks_done"], 5 * 12) << status;
  EXPECT_EQ(status["tasks_failed"], 0) << status;
  EXPECT_TRUE(WaitUntil([&] { return AllOnline(); }, Patience())) << Log();
  // The job goes on, and its steps of the meantime are reported.
  const int steps = Steps(0);
  EXPECT_TRUE(WaitUntil([&] { return Steps(0) > steps && Steps(1) > steps; },
                        Patience()))
      << Log();
  // Each rank reports its own, so one may be heard of before the other is.
  const auto reported = [&](const json& rank) {
    return !rank["steps"].empty() && rank["steps"][0]["count"] >= steps;
  };
  EXPECT_TRUE(WaitUntil(
      [&] {
        const json job = Job();
        return job.contains("ranks") && job["state"] == "running" &&
               std::ranges::all_of(job["ranks"], reported);
      },
      Patience()))
      << Log();
  std::ofstream(folder_ / "stop") << "";
  EXPECT_EQ(job_.Wait(Patience()), 0) << Log();
  EXPECT_TRUE(WaitUntil([&] { return Job()["state"] == "finished"; }))
      << Job() << Log();
}

void CutBothWays(Network& network, std::size_t a, std::size_t b) {
  network.SetLink(a, b, kCut);
  network.SetLink(b, a, kCut);
}

INSTANTIATE_TEST_SUITE_P(
    Faults, HostsTest,
    ::testing::Values(Fault{"TheCoordinatorIsCutOff",
                            [](Network& network) {
                              for (const std::size_t node : kNodes) {
                                CutBothWays(network, kCoordinator, node);
                              }
                            }},
                      Fault{"OneNodeIsCutOff",
                            [](Network& network) {
                              CutBothWays(network, 1, kCoordinator);
                              CutBothWays(network, 1, 2);
                            }},
                      Fault{"NothingReachesTheCoordinator",
                            [](Network& network) {
                              for (const std::size_t node : kNodes) {
                                network.SetLink(node, kCoordinator, kCut);
                              }
                            }},
                      Fault{"NothingComesFromTheCoordinator",
                            [](Network& network) {
                              for (const std::size_t node : kNodes) {
                                network.SetLink(kCoordinator, node, kCut);
                              }
                            }},
                      Fault{"LinksAreSlowAndLossy",
                            [](Network& network) {
                              for (std::size_t a = 0; a < 3; ++a) {
                                for (std::size_t b = 0; b < 3; ++b) {
                                  network.SetLink(
                                      a, b,
                                      {.delay = milliseconds(40),
                                       .loss = 0.05,
                                       .bytes_per_second = 125'000});
                                }
                              }
                            }}),
    [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace ucudnn::test
