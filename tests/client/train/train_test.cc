// The training program as a user runs it: real ranks with parts of the CPU, a
// real gRPC server with scripted plans, and real files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/examples/train/checkpoint.h"
#include "client/examples/train/net.h"
#include "device/onednn/onednn_device.h"
#include "proto/convert_plan.h"
#include "tests/support/mpirun.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/scripted_coordinator.h"

namespace ucudnn::train {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The difference that rounding explains over the few steps of these tests.
constexpr double kRounding = 1e-4;

double LargestDifference(const Json& a, const Json& b) {
  EXPECT_EQ(a["losses"].size(), b["losses"].size());
  double largest = 0;
  for (std::size_t i = 0; i < a["losses"].size(); ++i) {
    const double x = a["losses"][i];
    const double y = b["losses"][i];
    largest = std::max(largest, std::abs(x - y) / x);
  }
  return largest;
}

// Shares of the mini-batch, each kernel in micro-batches of three and a rest,
// on ranks with these numbers of threads.
Result<JobPlan> InThrees(const JobRequest& request,
                         const std::vector<Kernel>& kernels,
                         const std::vector<std::int64_t>& shares,
                         const std::vector<int>& threads) {
  JobPlan plan;
  plan.id = 5;
  plan.revision = 1;
  plan.request = request;
  plan.predicted = Nanoseconds(1'000'000);
  for (std::size_t r = 0; r < shares.size(); ++r) {
    UCUDNN_ASSIGN_OR_RETURN(auto device,
                            OpenOneDnnDevice({.threads = threads[r]}));
    RankPlan rank;
    rank.device_kind = request.device_kinds[r];
    rank.batch = BatchSize(shares[r]);
    rank.weight = static_cast<double>(shares[r]) /
                  static_cast<double>(request.batch.count());
    WorkspacePlan& workspace = rank.workspace.Own();
    workspace.batch = rank.batch;
    workspace.workspace_limit = request.workspace_limit;
    for (const Kernel& kernel : kernels) {
      if (shares[r] == 0) break;
      KernelPlan planned;
      planned.layer = kernel.layer;
      planned.op = kernel.op;
      planned.problem = kernel.problem;
      for (const std::int64_t size : {std::int64_t{3}, shares[r] % 3}) {
        const std::int64_t count = size == 3 ? shares[r] / 3 : 1;
        if (size == 0 || count == 0) continue;
        UCUDNN_ASSIGN_OR_RETURN(
            const Candidate candidate,
            SuggestWithin(*device, kernel.problem, BatchSize(size),
                          request.workspace_limit));
        planned.workspace = std::max(planned.workspace, candidate.workspace);
        planned.micro_batches.push_back(
            {BatchSize(size), count, candidate.algorithm,
             Nanoseconds(1'000'000), candidate.workspace});
      }
      workspace.total_time += Nanoseconds(10'000);
      workspace.kernels.push_back(std::move(planned));
    }
    plan.ranks.push_back(std::move(rank));
  }
  return plan;
}

class TrainTest : public ::testing::Test {
 protected:
  // A coordinator's plan for training `net`.
  void Plan(ScriptedCoordinator* coordinator, const Net& net,
            const std::vector<std::int64_t>& shares,
            const std::vector<int>& threads) {
    coordinator->create_plan =
        [=](const v1::PlanRequest& message) -> Result<v1::Plan> {
      UCUDNN_ASSIGN_OR_RETURN(const JobRequest request, FromProto(message));
      UCUDNN_ASSIGN_OR_RETURN(
          const JobPlan plan,
          InThrees(
              request,
              KernelsOf(ConvolutionsOf(net), Precision::kFp32, Layout::kNchw),
              shares, threads));
      return ToProto(plan);
    };
  }

  std::map<std::string, std::string> Environment() const {
    return {{"UCUDNN_CACHE_DIR", folder_ / "cache"},
            {"UCUDNN_COORDINATOR", ""},
            {"UCUDNN_PLAN_FILE", ""},
            {"CUDA_VISIBLE_DEVICES", ""},
            // Threads that spin at every barrier slow busy machines down.
            {"OMP_WAIT_POLICY", "passive"}};
  }

  // Standard output as JSON, which must be all of it; null if it is not JSON.
  Json Train(int ranks, const std::vector<std::string>& arguments) {
    const std::string out = folder_ / "out.json";
    std::ofstream(out).close();
    std::vector<std::string> command = {"sh",
                                        "-c",
                                        "exec \"$@\" >>" + out,
                                        "sh",
                                        test::ProgramPath("ucudnn-train"),
                                        "-o",
                                        "json",
                                        "--rate",
                                        "0.002"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    std::vector<std::string> environment;
    for (const auto& [name, value] : Environment()) {
      environment.push_back(name + "=" + value);
    }
    run_ = RunRanks(ranks, command, environment, folder_ / "log");
    const std::string text = test::FileText(out);
    return text.empty() ? Json() : Json::parse(text, nullptr, false);
  }

  // Runs one process, without mpirun.
  test::Finished TrainAlone(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), test::ProgramPath("ucudnn-train"));
    return test::Run(arguments, Environment());
  }

  test::TemporaryFolder folder_;
  RankedRun run_;
};

// Small images, which need few steps.
const std::vector<std::string> kSmall = {
    "--image", "1x12x12", "--threads", "1", "--measurements", "1"};
std::vector<std::string> Small(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), kSmall.begin(), kSmall.end());
  return arguments;
}

TEST_F(TrainTest, LearnsTheSameOnUnevenRanksAsInOneProcess) {
  const std::vector<std::string> common =
      Small({"--batch", "16", "--steps", "15"});
  const Json alone = Train(1, common);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  const double first = alone["losses"].front();
  EXPECT_LT(alone["losses"].back(), 0.95 * first);
  const Net net = LeNet({1, 12, 12}, 10).value();
  for (const std::vector<std::int64_t>& shares :
       {std::vector<std::int64_t>{11, 5}, {4, 0, 12}}) {
    ScriptedCoordinator coordinator;
    Plan(&coordinator, net, shares, {1, 1, 1});
    std::vector<std::string> arguments = common;
    arguments.insert(arguments.end(), {"--coordinator", coordinator.address()});
    const Json together = Train(static_cast<int>(shares.size()), arguments);
    ASSERT_EQ(run_.exit_status, 0) << run_.output;
    EXPECT_EQ(together["source"], "coordinator") << together["reason"];
    EXPECT_THAT(together["sum_method"].get<std::string>(),
                HasSubstr("the gradients are in host memory"));
    EXPECT_LT(LargestDifference(alone, together), kRounding);
    for (std::size_t r = 0; r < shares.size(); ++r) {
      const Json& rank = together["ranks"][r];
      EXPECT_EQ(rank["batch"], shares[r]);
      EXPECT_THAT(rank["fallbacks"], IsEmpty());
      EXPECT_EQ(rank["convolutions_us"].is_null(), shares[r] == 0);
      EXPECT_EQ(rank["predicted_us"].is_null(), shares[r] == 0);
    }
    EXPECT_GT(together["step_us"], together["exchange_us"]);
  }
}

TEST_F(TrainTest, LearnsTheSameOnUnlikeThreadsPlannedAndEvenlySplit) {
  ScriptedCoordinator coordinator;
  Plan(&coordinator, LeNet({1, 12, 12}, 10).value(), {10, 5}, {2, 1});
  const std::vector<std::string> common = {
      "--batch", "15",      "--steps",        "10", "--threads", "2,1",
      "--image", "1x12x12", "--measurements", "1"};
  std::vector<std::string> arguments = common;
  arguments.insert(arguments.end(), {"--coordinator", coordinator.address(),
                                     "--batch-policy", "adaptive"});
  const Json planned = Train(2, arguments);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_EQ(planned["split"], "planned");
  EXPECT_EQ(planned["ranks"][0]["batch"], 10);
  EXPECT_NE(planned["ranks"][0]["device_kind"],
            planned["ranks"][1]["device_kind"]);
  arguments = common;
  arguments.push_back("--even");
  const Json even = Train(2, arguments);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_EQ(even["split"], "even");
  EXPECT_EQ(even["ranks"][0]["batch"], 8);
  EXPECT_EQ(even["ranks"][1]["batch"], 7);
  EXPECT_LT(LargestDifference(planned, even), kRounding);
}

TEST_F(TrainTest, TrainsResNetOnRanksAsInOneProcess) {
  const std::vector<std::string> arguments = {
      "--net",          "resnet18", "--image", "3x32x32", "--classes", "10",
      "--batch",        "4",        "--steps", "2",       "--threads", "1",
      "--measurements", "0"};
  const Json alone = Train(1, arguments);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  const Json together = Train(2, arguments);
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_LT(LargestDifference(alone, together), kRounding);
}

TEST_F(TrainTest, ResumesFromACheckpointAsIfNeverInterrupted) {
  const std::string file = folder_ / "kept/lenet.ckpt";
  const std::vector<std::string> common =
      Small({"--batch", "8", "--images", "60", "--checkpoint", file});
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    return more;
  };
  const Json whole = Train(2, with({"--steps", "14"}));
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  // Stops in the middle of the second epoch.
  Train(2, with({"--steps", "9"}));
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  const Json rest = Train(2, with({"--steps", "14", "--resume"}));
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_EQ(rest["first_step"], 9);
  const std::vector<double> losses = whole["losses"];
  EXPECT_EQ(rest["losses"].get<std::vector<double>>(),
            std::vector<double>(losses.begin() + 9, losses.end()));

  const test::Finished refused =
      TrainAlone(with({"--steps", "30", "--resume", "--seed", "2"}));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr(file), HasSubstr("the seed")));
  std::ofstream(file, std::ios::app) << "x";
  Train(2, with({"--steps", "30", "--resume"}));
  EXPECT_EQ(run_.exit_status, 2);
  EXPECT_THAT(run_.output, HasSubstr(file + ": offset 24"));
}

TEST_F(TrainTest, FinishesItsStepWhenInterrupted) {
  const std::string file = folder_ / "lenet.ckpt";
  const std::vector<std::string> command = {test::ProgramPath("ucudnn-train"),
                                            "--batch",
                                            "8",
                                            "--rate",
                                            "0.002",
                                            "--threads",
                                            "1",
                                            "--image",
                                            "1x12x12",
                                            "--checkpoint",
                                            file,
                                            "--steps",
                                            "1000000",
                                            "--checkpoint-every",
                                            "5"};
  // A single process needs no mpirun.
  test::Process process(command, folder_ / "log", Environment());
  ASSERT_TRUE(test::WaitUntil([&] { return !test::FileText(file).empty(); }))
      << test::FileText(folder_ / "log");
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(), 128 + SIGINT);
  const std::string log = test::FileText(folder_ / "log");
  EXPECT_THAT(log, HasSubstr("--resume continues from " + file));
  const auto checkpoint = DecodeCheckpoint(test::FileText(file), file);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const std::int64_t done = checkpoint->steps;
  EXPECT_THAT(log, HasSubstr(fmt::format("interrupted after step {};", done)));
  const std::string last = std::to_string(done + 2);
  const Json rest = Train(1, Small({"--batch", "8", "--checkpoint", file,
                                    "--resume", "--steps", last}));
  ASSERT_EQ(run_.exit_status, 0) << run_.output;
  EXPECT_EQ(rest["first_step"], done);
}

TEST_F(TrainTest, TrainsOnTheFilesOfMnistAndCifar10) {
  const std::string images = folder_ / "train-images-idx3-ubyte";
  const std::string labels = folder_ / "train-labels-idx1-ubyte";
  const auto word = [](int n) {
    return std::string{0, 0, static_cast<char>(n / 256),
                       static_cast<char>(n % 256)};
  };
  std::string pixels;
  std::string classes;
  std::string cifar;
  for (int i = 0; i < 20; ++i) {
    const auto label = static_cast<char>(i % 10);
    classes += label;
    pixels += std::string(28 * 28, static_cast<char>(20 * label));
    cifar += label + std::string(3072, static_cast<char>(20 * label));
  }
  const std::string head = std::string{0, 0, 8, 3} + word(20);
  std::ofstream(images) << head + word(28) + word(28) + pixels;
  std::ofstream(labels) << std::string{0, 0, 8, 1} + word(20) + classes;
  std::ofstream(folder_ / "data_batch_1.bin") << cifar;
  for (const char* form : {"mnist:", "cifar10:"}) {
    const Json report =
        Train(2, {"--data", form + folder_.path(), "--batch", "10", "--steps",
                  "5", "--threads", "1", "--measurements", "0"});
    ASSERT_EQ(run_.exit_status, 0) << run_.output;
    EXPECT_EQ(report["losses"].size(), 5U);
    EXPECT_LT(report["losses"].back(), report["losses"].front());
  }
  std::ofstream(images, std::ios::app) << "x";
  Train(2, {"--data", "mnist:" + folder_.path(), "--batch", "10"});
  EXPECT_EQ(run_.exit_status, 2);
  EXPECT_THAT(run_.output,
              HasSubstr("ucudnn-train: rank 0: " + images + ": offset 16"));
}

TEST_F(TrainTest, ExitsWithTheStatusOfTheContract) {
  Train(2, {"--batch", "1", "--even"});
  EXPECT_EQ(run_.exit_status, 2);
  EXPECT_THAT(run_.output, HasSubstr("1 images on 2 ranks"));
  const auto expect = [&](int status, const std::string& text,
                          const std::vector<std::string>& arguments) {
    const test::Finished run = TrainAlone(arguments);
    EXPECT_EQ(run.status, status) << run.err;
    EXPECT_THAT(run.err, HasSubstr(text));
  };
  expect(2, "--batch", {});
  expect(2, "such as 3x32x32", {"--batch", "8", "--image", "3x32"});
  expect(2, "all,powerOfTwo,undivided,adaptive is accepted",
         {"--batch", "8", "--batch-policy", "most"});
  for (const char* flag : {"--net", "--data"}) {
    const std::string form = flag == std::string("--data") ? "mnist:" : "";
    expect(2, "none", {"--batch", "8", flag, form + (folder_ / "none.csv")});
  }
  std::ofstream(folder_ / "no.onnx") << std::string(9, '\1');
  expect(2, "no.onnx", {"--batch", "8", "--net", folder_ / "no.onnx"});
  expect(2, "only 7 images", {"--batch", "8", "--images", "7"});
}

}  // namespace
}  // namespace ucudnn::train
