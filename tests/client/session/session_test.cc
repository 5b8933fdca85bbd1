// Sessions of real MPI jobs with a real gRPC server that gives scripted
// answers.

#include "client/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "proto/convert_plan.h"
#include "tests/client/tiny_memory_plan.h"
#include "tests/client/tiny_network.h"
#include "tests/support/mpirun.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/scripted_coordinator.h"

namespace ucudnn {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kKind = "Fake/1u/1GiB/fake-1.0";

class SessionTest : public ::testing::Test {
 protected:
  // Runs a job; returns each rank's output, in rank order.
  std::vector<Json> Job(int ranks, std::vector<std::string> settings,
                        std::vector<std::string> environment = {}) {
    std::vector<std::string> command = {test::ProgramPath("session_ranks"),
                                        folder_.path()};
    command.insert(command.end(), settings.begin(), settings.end());
    std::vector<std::string> variables = {
        "UCUDNN_CACHE_DIR=" + folder_ / "cache",
        "UCUDNN_COORDINATOR=", "UCUDNN_PLAN_FILE="};
    variables.insert(variables.end(), environment.begin(), environment.end());
    const RankedRun run = RunRanks(ranks, command, variables, folder_ / "log");
    EXPECT_EQ(run.exit_status, 0) << run.output;
    reports_.clear();
    std::istringstream lines(run.output);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("ucudnn: ") != std::string::npos) reports_.push_back(line);
    }
    std::vector<Json> results;
    for (int r = 0; r < ranks; ++r) {
      const std::string path = folder_ / fmt::format("rank{}.json", r);
      std::ifstream file(path);
      results.push_back(Json::parse(file, nullptr, false));
      if (results.back().is_discarded()) {
        ADD_FAILURE() << "rank " << r << " wrote nothing: " << run.output;
        results.back() = Json::object();
      }
      file.close();
      fs::remove(path);
    }
    return results;
  }

  // What the ranks of the last job printed.
  const std::vector<std::string>& reports() const { return reports_; }

  // A coordinator that splits the batch into these shares.
  void AnswerWith(std::vector<std::int64_t> shares) {
    coordinator_.create_plan =
        [shares](const v1::PlanRequest& message) -> Result<v1::Plan> {
      UCUDNN_ASSIGN_OR_RETURN(const JobRequest request, FromProto(message));
      return ToProto(TinyPlan(request, shares));
    };
  }
  // The plan requests; the job also sends reports.
  std::vector<std::string> PlanCalls() {
    std::vector<std::string> calls = coordinator_.calls();
    std::erase_if(calls, [](const std::string& call) {
      return call != "CreatePlan" && call != "PutNetwork";
    });
    return calls;
  }
  std::string Coordinator() {
    return "UCUDNN_COORDINATOR=" + coordinator_.address();
  }

  test::TemporaryFolder folder_;
  ScriptedCoordinator coordinator_;
  std::vector<std::string> reports_;
};

TEST_F(SessionTest, GivesEveryRankItsShareOfThePlan) {
  AnswerWith({5, 0, 3});
  const auto ranks = Job(3, {"model=A/B/A"}, {Coordinator()});
  const std::vector<int> batches = {5, 0, 3};
  const std::vector<int> firsts = {0, 5, 5};
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(ranks[r]["source"], "coordinator") << ranks[r].dump(2);
    EXPECT_EQ(ranks[r]["batch"], batches[r]);
    EXPECT_EQ(ranks[r]["first_image"], firsts[r]);
    EXPECT_DOUBLE_EQ(ranks[r]["weight"], batches[r] / 8.0);
    EXPECT_EQ(ranks[r]["plan"], ranks[0]["plan"]);
    EXPECT_EQ(ranks[r]["reason"],
              "plan 7 of coordinator " + coordinator_.address());
  }
  EXPECT_EQ(ranks[0]["plan"]["request"]["device_kinds"],
            Json::array({"A/1u/1GiB/fake-1.0", "B/1u/1GiB/fake-1.0",
                         "A/1u/1GiB/fake-1.0"}));
  EXPECT_THAT(PlanCalls(), ElementsAre("CreatePlan"));
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(SessionTest, GivesEveryRankItsMemoryPlan) {
  coordinator_.create_plan =
      [](const v1::PlanRequest& message) -> Result<v1::Plan> {
    UCUDNN_ASSIGN_OR_RETURN(const JobRequest request, FromProto(message));
    EXPECT_EQ(request.memory->budgets,
              (std::vector<Bytes>{1_MiB, 64_KiB, 1_MiB}));
    return ToProto(TinyMemoryPlan(request, {5, 3, 0}));
  };
  const auto is_planned = [](const std::vector<Json>& ranks) {
    const std::vector<Bytes> budgets = {1_MiB, 64_KiB};
    for (std::size_t r = 0; r < 2; ++r) {
      const Json& plan = ranks[r]["memory_plan"];
      EXPECT_EQ(plan["batch"], ranks[r]["batch"]) << ranks[r].dump(2);
      EXPECT_EQ(plan["budget_bytes"], budgets[r].count());
      EXPECT_EQ(plan["graph"]["batch"], ranks[r]["batch"]);
    }
    EXPECT_TRUE(ranks[2]["memory_plan"].is_null());
  };
  const std::string memory = "memory=1MiB,64KiB,1MiB";
  auto ranks = Job(3, {memory}, {Coordinator()});
  EXPECT_EQ(ranks[0]["source"], "coordinator") << ranks[0].dump(2);
  is_planned(ranks);

  // Without the coordinator: from the cache, from a file, and none at all.
  const std::string file = folder_ / "plan.json";
  std::ofstream(file) << ranks[0]["plan"].dump();
  ranks = Job(3, {memory});
  EXPECT_EQ(ranks[0]["source"], "cache") << ranks[0].dump(2);
  is_planned(ranks);
  ranks = Job(3, {}, {"UCUDNN_PLAN_FILE=" + file});
  EXPECT_EQ(ranks[0]["source"], "plan file") << ranks[0].dump(2);
  is_planned(ranks);
  ranks = Job(2, {"memory=1MiB"});
  for (const Json& rank : ranks) {
    EXPECT_EQ(rank["source"], "undivided") << rank.dump(2);
    EXPECT_EQ(rank["batch"], 4);
    EXPECT_TRUE(rank["memory_plan"].is_null());
    EXPECT_TRUE(rank["plan"]["ranks"][0]["workspace"]["kernels"].empty());
  }
  ranks = Job(3, {"memory=1MiB,2MiB"});
  EXPECT_EQ(ranks[2]["code"], "INVALID_ARGUMENT") << ranks[2].dump(2);
  EXPECT_THAT(std::string(ranks[2]["message"]),
              HasSubstr("one, or one for each of 3 ranks"));
}

TEST_F(SessionTest, PassesOverAMemoryPlanThatIsNotSafe) {
  coordinator_.create_plan =
      [](const v1::PlanRequest& message) -> Result<v1::Plan> {
    UCUDNN_ASSIGN_OR_RETURN(const JobRequest request, FromProto(message));
    JobPlan plan = TinyMemoryPlan(request, {5, 3});
    Json body = Json::parse(plan.memory_plans[1].plan);
    body["rounds"][0]["events"].back()["start_us"] = 0;
    plan.memory_plans[1].plan = body.dump();
    return ToProto(plan);
  };
  for (const Json& rank : Job(2, {"memory=1MiB"}, {Coordinator()})) {
    EXPECT_EQ(rank["source"], "undivided") << rank.dump(2);
    EXPECT_THAT(std::string(rank["reason"]),
                AllOf(HasSubstr("rank 1"), HasSubstr("is not safe: R")));
  }
}

TEST_F(SessionTest, RefusesAJobWithoutANetwork) {
  for (const Json& rank : Job(2, {"layers=0", "network="})) {
    EXPECT_EQ(rank["code"], "INVALID_ARGUMENT") << rank.dump(2);
    EXPECT_EQ(rank["message"], "rank 0: network or network_file is required");
  }
}

TEST_F(SessionTest, RefusesANetworkThatTheCoordinatorDoesNotKnow) {
  coordinator_.create_plan = [](const v1::PlanRequest&) -> Result<v1::Plan> {
    return Fail(Code::kNotFound, "there is no network 'typo'");
  };
  for (const Json& rank :
       Job(2, {"layers=0", "network=typo"}, {Coordinator()})) {
    EXPECT_EQ(rank["code"], "NOT_FOUND") << rank.dump(2);
    EXPECT_EQ(rank["message"],
              "rank 0: coordinator " + coordinator_.address() +
                  " does not know network 'typo'; a network that `ucudnn "
                  "networks` lists is accepted, or its layers in network_file");
  }
}

TEST_F(SessionTest, RefusesAPlanFileThatCannotBeRead) {
  AnswerWith({4, 4});
  const std::string broken = folder_ / "broken.json";
  std::ofstream(broken) << "{\"ranks\": 3}";
  for (const std::string& file : {folder_ / "none", folder_.path(), broken}) {
    const auto ranks = Job(2, {}, {Coordinator(), "UCUDNN_PLAN_FILE=" + file});
    for (const Json& rank : ranks) {
      EXPECT_EQ(rank["code"], "INVALID_ARGUMENT") << rank.dump(2);
      EXPECT_THAT(rank["message"].get<std::string>(),
                  HasSubstr("rank 0: plan file: " + file + ": "));
    }
  }
  EXPECT_THAT(PlanCalls(), IsEmpty());
}

TEST_F(SessionTest, SaysNothingIfUndividedIsWhatWasAskedFor) {
  const auto ranks = Job(2, {}, {"UCUDNN_BATCH_SIZE_POLICY=undivided"});
  EXPECT_EQ(ranks[0]["source"], "undivided") << ranks[0].dump(2);
  EXPECT_THAT(reports(), IsEmpty());
}

TEST_F(SessionTest, SaysWhyAPlanIsNotCached) {
  AnswerWith({4, 4});
  std::ofstream(folder_ / "cache") << "a file, not a folder";
  const auto ranks = Job(2, {}, {Coordinator()});
  EXPECT_EQ(ranks[0]["source"], "coordinator") << ranks[0].dump(2);
  EXPECT_THAT(ranks[0]["plan"]["reasons"].dump(),
              HasSubstr("the plan is not cached: " + folder_ / "cache"));
}

TEST_F(SessionTest, WarnsRanksThatShareADevice) {
  AnswerWith({3, 3, 2});
  const auto ranks = Job(3, {"id=x/y/x"}, {Coordinator()});
  EXPECT_THAT(ranks[1]["plan"]["reasons"].dump(),
              HasSubstr("ranks 0, 2 share device x"));
}

TEST_F(SessionTest, WarnsRanksThatHaveSlicesOfOneDevice) {
  AnswerWith({5, 1, 2});
  const auto ranks = Job(3, {"id=x/y/x", "slice=64/64/32"}, {Coordinator()});
  EXPECT_THAT(ranks[0]["plan"]["reasons"].dump(),
              HasSubstr("ranks 0, 2 share device x"));
}

TEST_F(SessionTest, RegistersANetworkThatTheCoordinatorDoesNotKnow) {
  std::string content;
  coordinator_.put_network =
      [&](const v1::PutNetworkRequest& request) -> Result<v1::Network> {
    content = request.content();
    return v1::Network();
  };
  coordinator_.create_plan =
      [&](const v1::PlanRequest& message) -> Result<v1::Plan> {
    if (content.empty()) return Fail(Code::kNotFound, "no network tiny");
    UCUDNN_ASSIGN_OR_RETURN(const JobRequest request, FromProto(message));
    return ToProto(TinyPlan(request, {4, 4}));
  };
  const auto ranks = Job(2, {}, {Coordinator()});
  EXPECT_EQ(ranks[1]["source"], "coordinator") << ranks[1].dump(2);
  EXPECT_EQ(content, ToCsv(TinyNetwork()));
}

TEST_F(SessionTest, SaysWhichRanksCannotReport) {
  // All ranks use what rank 0's environment names.
  const auto ranks = Job(2, {}, {Coordinator(), "UCUDNN_CA=/nowhere/ca.crt"});
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_THAT(
        ranks[r]["plan"]["reasons"].dump(),
        AllOf(HasSubstr(fmt::format("steps of rank {} are not reported", r)),
              HasSubstr("/nowhere/ca.crt")));
  }
}

TEST_F(SessionTest, SplitsEvenlyWhenTheCoordinatorIsAway) {
  const std::string dead = coordinator_.address();
  coordinator_.Stop();
  const auto ranks = Job(3, {"ask_ms=300"}, {"UCUDNN_COORDINATOR=" + dead});
  const std::vector<int> batches = {3, 3, 2};
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(ranks[r]["source"], "undivided") << ranks[r].dump(2);
    EXPECT_EQ(ranks[r]["batch"], batches[r]);
    EXPECT_LT(ranks[r]["ms"], 5000);
    EXPECT_EQ(ranks[r]["plan"], ranks[0]["plan"]);
    EXPECT_EQ(ranks[r]["reason"], ranks[0]["reason"]);
    EXPECT_THAT(ranks[r]["reason"].get<std::string>(),
                AllOf(HasSubstr("coordinator " + dead + " cannot be reached"),
                      HasSubstr("; no cached plan in " + folder_ / "cache")));
    const Json& kernels = ranks[0]["plan"]["ranks"][r]["workspace"]["kernels"];
    ASSERT_EQ(kernels.size(), 5U);
    EXPECT_EQ(kernels[0]["micro_batches"][0]["algorithm"], "lavish");
    EXPECT_EQ(kernels[0]["micro_batches"][0]["batch"], batches[r]);
  }
  EXPECT_THAT(reports(), ElementsAre("ucudnn: job tiny runs undivided: " +
                                     ranks[0]["reason"].get<std::string>()));
}

TEST_F(SessionTest, DoesNotWaitForACoordinatorThatDoesNotAnswer) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  // Captured by value: the call may outlive this test's body.
  coordinator_.create_plan =
      [released](const v1::PlanRequest&) -> Result<v1::Plan> {
    released.wait();
    return Fail(Code::kInternal, "too late");
  };
  const auto ranks = Job(2, {"ask_ms=300"}, {Coordinator()});
  release.set_value();
  for (const Json& rank : ranks) {
    EXPECT_EQ(rank["source"], "undivided") << rank.dump(2);
    EXPECT_LT(rank["ms"], 5000);
  }
}

TEST_F(SessionTest, FallsBackOnEveryRankWhenRankZeroIsRefused) {
  coordinator_.create_plan = [](const v1::PlanRequest&) -> Result<v1::Plan> {
    return Fail(Code::kAborted, "12 of 30 measurements are missing");
  };
  const auto ranks = Job(2, {}, {Coordinator()});
  for (const Json& rank : ranks) {
    EXPECT_EQ(rank["source"], "undivided");
    EXPECT_THAT(rank["reason"].get<std::string>(),
                HasSubstr("coordinator " + coordinator_.address() +
                          ": 12 of 30 measurements are missing"));
  }
  EXPECT_THAT(PlanCalls(), ElementsAre("CreatePlan"));
}

TEST_F(SessionTest, AwaitsMeasurementsIfAskedTo) {
  std::atomic<int> missing = 2;
  coordinator_.create_plan =
      [&](const v1::PlanRequest& message) -> Result<v1::Plan> {
    if (missing-- > 0) return Fail(Code::kAborted, "some are missing");
    UCUDNN_ASSIGN_OR_RETURN(const JobRequest request, FromProto(message));
    return ToProto(TinyPlan(request, {4, 4}));
  };
  const auto ranks = Job(2, {"await_ms=60000"}, {Coordinator()});
  EXPECT_EQ(ranks[1]["source"], "coordinator") << ranks[1].dump(2);
}

TEST_F(SessionTest, UsesTheCachedPlanOnceTheCoordinatorIsAway) {
  AnswerWith({6, 2});
  const auto first = Job(2, {"ask_ms=300"}, {Coordinator()});
  ASSERT_EQ(first[0]["source"], "coordinator") << first[0].dump(2);
  const std::string address = Coordinator();
  coordinator_.Stop();
  const auto second = Job(2, {"ask_ms=300"}, {address});
  for (const Json& rank : second) {
    EXPECT_EQ(rank["source"], "cache") << rank.dump(2);
    EXPECT_EQ(rank["plan"], first[0]["plan"]);
    EXPECT_THAT(rank["reason"].get<std::string>(),
                AllOf(HasSubstr("cannot be reached"),
                      HasSubstr("; cached plan 7 in ")));
  }
  EXPECT_EQ(second[0]["batch"], 6);
  EXPECT_THAT(reports(), ElementsAre("ucudnn: job tiny: " +
                                     second[0]["reason"].get<std::string>()));
  // Another request has another plan.
  EXPECT_EQ(Job(2, {"ask_ms=300", "batch=9"}, {address})[0]["source"],
            "undivided");
  // A damaged cache does no harm.
  for (const auto& entry : fs::directory_iterator(folder_ / "cache")) {
    std::ofstream(entry.path()) << "{\"ranks\": 3}";
  }
  const auto third = Job(2, {"ask_ms=300"}, {address});
  EXPECT_EQ(third[1]["source"], "undivided");
  EXPECT_THAT(
      third[1]["reason"].get<std::string>(),
      AllOf(HasSubstr("cached plan: "), HasSubstr("request is missing")));
}

TEST_F(SessionTest, PrefersThePlanFile) {
  AnswerWith({4, 4});
  const std::string path = folder_ / "plan.json";
  JobPlan plan = TinyPlan(TinyRequest(BatchSize(8), {kKind, kKind}), {7, 1});
  plan.id = 99;
  ASSERT_TRUE(ReplaceFile(path, ToJsonText(plan)));
  const auto ranks = Job(2, {}, {Coordinator(), "UCUDNN_PLAN_FILE=" + path});
  EXPECT_EQ(ranks[0]["source"], "plan file") << ranks[0].dump(2);
  EXPECT_EQ(ranks[0]["plan"]["id"], 99);
  EXPECT_EQ(ranks[0]["batch"], 7);
  EXPECT_EQ(ranks[1]["batch"], 1);
  EXPECT_THAT(PlanCalls(), IsEmpty());
}

TEST_F(SessionTest, SkipsAPlanFileThatIsNotForThisJob) {
  AnswerWith({4, 4});
  const std::string path = folder_ / "plan.json";
  ASSERT_TRUE(ReplaceFile(
      path,
      ToJsonText(TinyPlan(TinyRequest(BatchSize(9), {kKind, kKind}), {8, 1}))));
  const auto ranks = Job(2, {}, {Coordinator(), "UCUDNN_PLAN_FILE=" + path});
  for (const Json& rank : ranks) {
    EXPECT_EQ(rank["source"], "coordinator") << rank.dump(2);
    EXPECT_THAT(rank["reason"].get<std::string>(),
                AllOf(HasSubstr("plan file " + path + " does not fit the job"),
                      HasSubstr("; plan 7 of coordinator")));
  }
  EXPECT_THAT(reports(), ElementsAre("ucudnn: job tiny: " +
                                     ranks[0]["reason"].get<std::string>()));
}

TEST_F(SessionTest, SkipsAPlanThatOneRanksDeviceCannotRun) {
  AnswerWith({4, 4});
  const auto ranks = Job(2, {"lavish=1/0"}, {Coordinator()});
  for (const Json& rank : ranks) {
    EXPECT_EQ(rank["source"], "undivided") << rank.dump(2);
    EXPECT_THAT(
        rank["reason"].get<std::string>(),
        HasSubstr("rank 1: conv1 forward: device fake-1 has no algorithm "
                  "lavish"));
  }
  EXPECT_EQ(ranks[0]["plan"], ranks[1]["plan"]);
  // A plan that is not used is not cached.
  EXPECT_FALSE(fs::exists(folder_ / "cache"));
}

TEST_F(SessionTest, SkipsAPlanThatDoesNotSumToTheBatch) {
  AnswerWith({4, 3});
  const auto ranks = Job(2, {}, {Coordinator()});
  EXPECT_EQ(ranks[1]["source"], "undivided");
  EXPECT_THAT(ranks[1]["reason"].get<std::string>(),
              HasSubstr("its ranks have 7 images together, the job has 8"));
}

TEST_F(SessionTest, RefusesRanksWithDifferentOptions) {
  const auto ranks = Job(3, {"batch=8/8/16"});
  for (const Json& rank : ranks) {
    EXPECT_EQ(rank["code"], "INVALID_ARGUMENT") << rank.dump(2);
    EXPECT_EQ(rank["message"],
              "rank 2 has batch=16, rank 0 has batch=8; all ranks must have "
              "the same");
  }
  // Not as their kernels, which the precision makes different too.
  EXPECT_EQ(Job(2, {"precision=FP32/BF16"})[0]["message"],
            "rank 1 has precision=BF16, rank 0 has precision=FP32; all ranks "
            "must have the same");
  EXPECT_EQ(Job(2, {"filters=6/7"})[0]["message"],
            "rank 1 has another network (network_file) than rank 0; all ranks "
            "must have the same");
}

TEST_F(SessionTest, ReportsOneRanksErrorOnAllRanks) {
  for (const Json& rank : Job(2, {"batch=8/0"})) {
    EXPECT_EQ(rank["code"], "INVALID_ARGUMENT");
    EXPECT_THAT(rank["message"].get<std::string>(),
                HasSubstr("rank 1: batch is 0"));
  }
  for (const Json& rank : Job(2, {}, {"UCUDNN_WORKSPACE_LIMIT=lots"})) {
    EXPECT_EQ(rank["code"], "INVALID_ARGUMENT");
    EXPECT_THAT(rank["message"].get<std::string>(),
                HasSubstr("rank 0: UCUDNN_WORKSPACE_LIMIT: "));
  }
  // Even undivided, "lavish" needs 400 bytes for 4 images.
  for (const Json& rank :
       Job(2, {"frugal=1/0"}, {"UCUDNN_WORKSPACE_LIMIT=399"})) {
    EXPECT_EQ(rank["code"], "FAILED_PRECONDITION");
    EXPECT_THAT(rank["message"].get<std::string>(),
                AllOf(HasSubstr("rank 1: conv1 forward"),
                      HasSubstr("the smallest needs 400")));
  }
}

TEST_F(SessionTest, ReturnsWhenARankStaysAway) {
  const auto ranks = Job(3, {"absent=0/0/1", "agree_ms=500"});
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(ranks[r]["code"], "DEADLINE_EXCEEDED") << ranks[r].dump(2);
    EXPECT_LT(ranks[r]["ms"], 5000);
  }
}

TEST_F(SessionTest, UsesTheLimitsOfTheEnvironment) {
  v1::PlanRequest asked;
  coordinator_.create_plan =
      [&](const v1::PlanRequest& message) -> Result<v1::Plan> {
    asked = message;
    return Fail(Code::kInternal, "no plan today");
  };
  const auto ranks =
      Job(2, {},
          {Coordinator(), "UCUDNN_WORKSPACE_LIMIT=8MiB",
           "UCUDNN_TOTAL_WORKSPACE_SIZE=399", "UCUDNN_BATCH_SIZE_POLICY=all"});
  EXPECT_EQ(asked.workspace_limit_bytes(), 8 << 20);
  EXPECT_EQ(asked.total_workspace_bytes(), 399);
  EXPECT_EQ(asked.batch_policy(), "all");
  const Json& workspace = ranks[1]["plan"]["ranks"][1]["workspace"];
  EXPECT_EQ(workspace["kernels"][0]["micro_batches"][0]["algorithm"], "frugal");
}

TEST_F(SessionTest, SharesTheBatchEvenWithoutKnowingTheLayers) {
  const auto ranks = Job(3, {"layers=0", "batch=2"});
  EXPECT_EQ(ranks[0]["batch"], 1) << ranks[0].dump(2);
  EXPECT_EQ(ranks[1]["batch"], 1);
  EXPECT_EQ(ranks[2]["batch"], 0);
  EXPECT_THAT(ranks[0]["plan"]["ranks"][0]["workspace"]["kernels"], IsEmpty());
  EXPECT_THAT(ranks[0]["reason"].get<std::string>(),
              HasSubstr("no coordinator is named"));
  EXPECT_THAT(
      reports(),
      ElementsAre(HasSubstr("job tiny runs undivided and without kernels: ")));
}

}  // namespace
}  // namespace ucudnn
