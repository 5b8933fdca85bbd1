#include "client/dropin/planner/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/plan/plan_json.h"
#include "device/accuracy.h"
#include "tests/support/fake_device.h"
#include "tests/support/process.h"

namespace ucudnn {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

ConvProblem TinyProblem(std::int64_t channels = 2) {
  ConvProblem problem;
  problem.geometry.channels = channels;
  problem.geometry.filters = 2;
  problem.geometry.input = {1, 5, 5};
  problem.geometry.filter = {1, 3, 3};
  return problem;
}

// Counts how often it is requested, that is, how often something is measured.
class Bench {
 public:
  LocalSolver::Bench Get() {
    return [this]() -> Result<Device*> {
      ++asked_;
      return &device_;
    };
  }
  FakeDevice& device() { return device_; }
  int asked() const { return asked_; }

 private:
  FakeDevice device_;
  int asked_ = 0;
};

LocalSolver::Options Options(const std::string& cache = "") {
  LocalSolver::Options options;
  options.settings.cache_dir = cache;
  options.settings.workspace_limit = 64_MiB;
  options.kind = "Fake/1u/1GiB/fake-1.0";
  return options;
}

std::int64_t Images(const KernelPlan& plan) {
  std::int64_t images = 0;
  for (const MicroBatch& micro : plan.micro_batches) {
    images += micro.batch.count() * micro.count;
  }
  return images;
}

TEST(LocalSolverTest, MeasuresAProblemOnceForAllLimits) {
  Bench bench;
  LocalSolver planner(Options());
  const auto first =
      planner.Plan(TinyProblem(), BatchSize(6), 64_MiB, bench.Get());
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(Images(*first), 6);
  const int asked = bench.asked();
  EXPECT_GT(asked, 0);
  for (const Bytes limit : {64_MiB, 250_B, 100_B, 0_B}) {
    const auto plan =
        planner.Plan(TinyProblem(), BatchSize(6), limit, bench.Get());
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_LE(plan->workspace, limit);
    EXPECT_EQ(Images(*plan), 6);
  }
  EXPECT_EQ(bench.asked(), asked);
}

TEST(LocalSolverTest, MeasuresWhatALimitBeyondTheSettingsNeeds) {
  Bench bench;
  auto options = Options();
  options.settings.workspace_limit = 200_B;
  bench.device().algorithms()[1].workspace_per_image = 90_B;
  LocalSolver planner(options);
  const auto small =
      planner.Plan(TinyProblem(), BatchSize(8), 200_B, bench.Get());
  ASSERT_TRUE(small) << small.error().message;
  EXPECT_LE(small->workspace, 200_B);
  // A program may raise its handle's limit.
  const auto large =
      planner.Plan(TinyProblem(), BatchSize(8), 1_KiB, bench.Get());
  ASSERT_TRUE(large) << large.error().message;
  EXPECT_GT(large->workspace, 200_B);
  EXPECT_LT(large->time, small->time);
}

TEST(LocalSolverTest, PlansForManyThreadsAtOnce) {
  const test::TemporaryFolder folder;
  Bench bench;
  LocalSolver planner(Options(folder.path()));
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::int64_t channels = 1; channels <= 4; ++channels) {
        const auto plan = planner.Plan(TinyProblem(1 + (channels + t) % 4),
                                       BatchSize(4), 64_MiB, bench.Get());
        ASSERT_TRUE(plan) << plan.error().message;
        EXPECT_EQ(Images(*plan), 4);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(LocalSolverTest, MeasuresWhatAnotherBatchNeedsMore) {
  Bench bench;
  LocalSolver planner(Options());
  ASSERT_TRUE(planner.Plan(TinyProblem(), BatchSize(4), 64_MiB, bench.Get()));
  const std::size_t runs = bench.device().runs().size();
  // 1, 2 and 4 are known already, 6 is not.
  ASSERT_TRUE(planner.Plan(TinyProblem(), BatchSize(6), 64_MiB, bench.Get()));
  std::set<std::int64_t> batches;
  for (std::size_t i = runs; i < bench.device().runs().size(); ++i) {
    batches.insert(bench.device().runs()[i].batch.count());
  }
  EXPECT_TRUE(batches.contains(6));
  EXPECT_FALSE(batches.contains(2));
}

TEST(LocalSolverTest, FindsWhatAnEarlierProcessMeasured) {
  const test::TemporaryFolder folder;
  Bench bench;
  {
    LocalSolver planner(Options(folder.path()));
    ASSERT_TRUE(planner.Plan(TinyProblem(), BatchSize(6), 64_MiB, bench.Get()));
  }
  Bench later;
  LocalSolver planner(Options(folder.path()));
  const auto plan =
      planner.Plan(TinyProblem(), BatchSize(6), 64_MiB, later.Get());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(later.asked(), 0);
  // Another kind of device, or more workspace, is measured.
  auto options = Options(folder.path());
  options.kind = "Other/1u/1GiB/fake-1.0";
  LocalSolver other(options);
  ASSERT_TRUE(other.Plan(TinyProblem(), BatchSize(6), 64_MiB, later.Get()));
  EXPECT_GT(later.asked(), 0);
}

TEST(LocalSolverTest, IgnoresADamagedFile) {
  const test::TemporaryFolder folder;
  Bench bench;
  MeasurementFiles files(folder.path(), Options().kind);
  ASSERT_TRUE(files.Write(TinyProblem(), {}));
  // The file name replaces the kind's punctuation, so search for it.
  const auto listed = test::Run(
      {"/bin/sh", "-c", "ls " + folder.path() + "/measured/*/*.json"});
  const std::string name = listed.out.substr(0, listed.out.find('\n'));
  std::ofstream(name) << "{\"version\": 1, \"kind\": 7";
  LocalSolver planner(Options(folder.path()));
  EXPECT_TRUE(planner.Plan(TinyProblem(), BatchSize(2), 64_MiB, bench.Get()));
  EXPECT_GT(bench.asked(), 0);
  EXPECT_THAT(test::FileText(name), HasSubstr("\"batches\""));
}

TEST(LocalSolverTest, ManyProcessesMeasureOnce) {
  const test::TemporaryFolder folder;
  constexpr int kProcesses = 8;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Bench bench;
      LocalSolver planner(Options(folder.path()));
      int measured = 0;
      for (std::int64_t channels = 1; channels <= 6; ++channels) {
        const int before = bench.asked();
        const auto plan = planner.Plan(TinyProblem(channels), BatchSize(6),
                                       64_MiB, bench.Get());
        if (!plan || Images(*plan) != 6) _exit(100);
        if (bench.asked() > before) ++measured;
      }
      _exit(measured);
    }
    children.push_back(child);
  }
  int measured = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_LT(WEXITSTATUS(status), 100);
    measured += WEXITSTATUS(status);
  }
  EXPECT_EQ(measured, 6);
}

TEST(LocalSolverTest, DoesNotWaitForeverForAnotherProcess) {
  const test::TemporaryFolder folder;
  MeasurementFiles files(folder.path(), Options().kind);
  const auto lock = files.Acquire(TinyProblem(), std::chrono::milliseconds(0));
  ASSERT_TRUE(lock);
  auto options = Options(folder.path());
  options.patience = std::chrono::milliseconds(20);
  LocalSolver planner(options);
  Bench bench;
  const auto plan =
      planner.Plan(TinyProblem(), BatchSize(2), 64_MiB, bench.Get());
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kDeadlineExceeded);
  EXPECT_EQ(bench.asked(), 0);
}

// A coordinator's measurement of an algorithm that takes 10 ns per image.
KnownElsewhere Elsewhere(const std::vector<std::int64_t>& batches,
                         const std::string& algorithm = "lavish",
                         Bytes complete_to = 1_GiB) {
  KnownElsewhere known;
  for (const std::int64_t batch : batches) {
    known.points.push_back({.batch = BatchSize(batch),
                            .algorithm = {algorithm, "", Precision::kFp32},
                            .workspace = Bytes(100 * batch),
                            .time = Nanoseconds(10 * batch)});
    known.complete[BatchSize(batch)] = complete_to;
  }
  return known;
}

std::set<std::int64_t> TimedBatches(FakeDevice& device) {
  std::set<std::int64_t> batches;
  for (const auto& run : device.timed_runs()) {
    batches.insert(run.batch.count());
  }
  return batches;
}

TEST(LocalSolverTest, AsksBeforeItMeasures) {
  auto options = Options();
  int asked = 0;
  options.ask = [&](const ConvProblem& problem) {
    EXPECT_EQ(problem, TinyProblem());
    ++asked;
    return Elsewhere({1, 2, 4});
  };
  LocalSolver planner(options);
  Bench bench;
  const auto plan =
      planner.Plan(TinyProblem(), BatchSize(4), 200_B, bench.Get());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->time, Nanoseconds(40));
  EXPECT_THAT(plan->micro_batches,
              ElementsAre(AllOf(Field(&MicroBatch::batch, BatchSize(2)),
                                Field(&MicroBatch::count, 2))));
  EXPECT_THAT(TimedBatches(bench.device()), IsEmpty());
  ASSERT_TRUE(planner.Plan(TinyProblem(), BatchSize(4), 100_B, bench.Get()));
  EXPECT_EQ(asked, 1);
}

TEST(LocalSolverTest, MeasuresWhatNobodyHasMeasuredCompletely) {
  const auto timed = [](const KnownElsewhere& known) {
    auto options = Options();
    options.ask = [&](const ConvProblem&) { return known; };
    LocalSolver planner(options);
    Bench bench;
    EXPECT_TRUE(planner.Plan(TinyProblem(), BatchSize(4), 64_MiB, bench.Get()));
    return TimedBatches(bench.device());
  };
  EXPECT_THAT(timed(Elsewhere({1, 4})), ElementsAre(2));
  EXPECT_THAT(timed(Elsewhere({1, 2, 4}, "lavish", 1_MiB)),
              ElementsAre(1, 2, 4));
  EXPECT_THAT(timed(Elsewhere({1, 2, 4}, "not here")), ElementsAre(1, 2, 4));
  KnownElsewhere too_small = Elsewhere({1, 2, 4});
  too_small.points[1].workspace = 199_B;
  EXPECT_THAT(timed(too_small), ElementsAre(2));
  EXPECT_THAT(timed({}), ElementsAre(1, 2, 4));
}

TEST(LocalSolverTest, MeasuresIfNobodyAnswers) {
  auto options = Options();
  options.ask = [](const ConvProblem&) -> Result<KnownElsewhere> {
    return Fail(Code::kUnavailable, "away");
  };
  LocalSolver planner(options);
  Bench bench;
  ASSERT_TRUE(planner.Plan(TinyProblem(), BatchSize(4), 64_MiB, bench.Get()));
  EXPECT_THAT(TimedBatches(bench.device()), ElementsAre(1, 2, 4));
}

TEST(LocalSolverTest, KeepsTheCoordinatorsMeasurements) {
  const test::TemporaryFolder folder;
  auto options = Options(folder.path());
  int asked = 0;
  options.ask = [&](const ConvProblem&) {
    ++asked;
    return Elsewhere({1, 2, 4});
  };
  for (int process = 0; process < 2; ++process) {
    LocalSolver planner(options);
    Bench bench;
    const auto plan =
        planner.Plan(TinyProblem(), BatchSize(4), 1_KiB, bench.Get());
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->time, Nanoseconds(40));
    EXPECT_EQ(asked, 1);
  }
}

TEST(LocalSolverTest, ReportsABrokenDevice) {
  LocalSolver planner(Options());
  const auto plan = planner.Plan(
      TinyProblem(), BatchSize(4), 64_MiB,
      []() -> Result<Device*> { return Fail(Code::kUnavailable, "no GPU"); });
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kUnavailable);
}

TEST(LocalSolverTest, UsesThePlanFileIfItFits) {
  const test::TemporaryFolder folder;
  WorkspacePlan file;
  file.batch = BatchSize(6);
  KernelPlan kernel;
  kernel.layer = "conv";
  kernel.problem = TinyProblem();
  kernel.workspace = 300_B;
  kernel.micro_batches = {{BatchSize(3),
                           2,
                           {"lavish", "", Precision::kFp32},
                           Nanoseconds(5),
                           300_B}};
  file.kernels = {kernel};
  std::ofstream(folder / "plan.json") << ToJson(file).dump();
  auto options = Options();
  options.settings.plan_file = folder / "plan.json";
  LocalSolver planner(options);
  EXPECT_THAT(planner.plan_file_problem(), IsEmpty());
  Bench bench;
  const auto plan =
      planner.Plan(TinyProblem(), BatchSize(6), 64_MiB, bench.Get());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->micro_batches, kernel.micro_batches);
  // Not within the limit, or another batch: planned here.
  const auto less =
      planner.Plan(TinyProblem(), BatchSize(6), 200_B, bench.Get());
  ASSERT_TRUE(less) << less.error().message;
  EXPECT_LE(less->workspace, 200_B);
  EXPECT_TRUE(planner.Plan(TinyProblem(), BatchSize(5), 64_MiB, bench.Get()));
}

// A plan whose kernels may run at once: each call gets a division of its
// problem, in whatever workspace the program has.
TEST(LocalSolverTest, UsesAPlanFileWithSegments) {
  const test::TemporaryFolder folder;
  WorkspacePlan file;
  file.batch = BatchSize(6);
  file.total_workspace = 600_B;
  file.concurrency = "[0 | 1]";
  for (const std::int64_t at : {0, 300}) {
    KernelPlan& kernel = file.kernels.emplace_back();
    kernel.problem = TinyProblem();
    kernel.workspace = 300_B;
    kernel.offset = Bytes(at);
    kernel.micro_batches = {{BatchSize(3),
                             2,
                             {"lavish", "", Precision::kFp32},
                             Nanoseconds(5),
                             300_B}};
  }
  std::ofstream(folder / "plan.json") << ToJson(file).dump();
  auto options = Options();
  options.settings.plan_file = folder / "plan.json";
  LocalSolver planner(options);
  EXPECT_THAT(planner.plan_file_problem(), IsEmpty());
  Bench bench;
  const auto plan =
      planner.Plan(TinyProblem(), BatchSize(6), 300_B, bench.Get());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->micro_batches, file.kernels[0].micro_batches);
  file.kernels[1].offset = 299_B;
  std::ofstream(folder / "plan.json") << ToJson(file).dump();
  EXPECT_THAT(LocalSolver(options).plan_file_problem(),
              HasSubstr("both may run at once"));
}

TEST(LocalSolverTest, SaysWhyThePlanFileIsNotUsed) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "plan.json") << "[1]";
  auto options = Options();
  options.settings.plan_file = folder / "plan.json";
  LocalSolver planner(options);
  EXPECT_THAT(
      planner.plan_file_problem(),
      AllOf(HasSubstr("plan.json"), HasSubstr("an object is accepted")));
  Bench bench;
  EXPECT_TRUE(planner.Plan(TinyProblem(), BatchSize(2), 64_MiB, bench.Get()));
}

TEST(LocalSolverTest, DividesATotalIntoDisjointSegments) {
  LocalSolver planner(Options());
  Bench bench;
  std::vector<LocalSolver::Kernel> kernels;
  for (const std::int64_t channels : {2, 3, 2, 4}) {
    kernels.push_back(
        {TinyProblem(channels), BatchSize(channels == 3 ? 8 : 4)});
  }
  for (const Bytes total : {0_B, 256_B, 1024_B, 1_MiB}) {
    const auto plans = planner.Divide(kernels, total, bench.Get());
    ASSERT_TRUE(plans) << plans.error().message;
    ASSERT_THAT(*plans, SizeIs(4));
    Bytes end;
    for (std::size_t i = 0; i < plans->size(); ++i) {
      const KernelPlan& plan = (*plans)[i];
      EXPECT_EQ(Images(plan), kernels[i].batch.count());
      ASSERT_TRUE(plan.offset);
      EXPECT_GE(*plan.offset, end);
      EXPECT_EQ(plan.offset->count() % 256, 0);
      end = *plan.offset + plan.workspace;
    }
    EXPECT_LE(end, total);
  }
}

// Four images take 10 us undivided, and 2 us in pairs that the host enqueues in
// `enqueue` each.
std::vector<FakeAlgorithm> QuickInPairs(std::chrono::microseconds enqueue) {
  FakeAlgorithm whole{{"frugal", "", Precision::kFp32}, 0_B};
  whole.time = std::chrono::microseconds(10);
  FakeAlgorithm pairs{{"quick", "", Precision::kFp32}, 0_B, BatchSize(2)};
  pairs.enqueue = enqueue;
  return {whole, pairs};
}

TEST(LocalSolverTest, DividesOnlyIfTheHostEnqueuesFastEnough) {
  for (const int enqueue : {3, 6}) {
    const test::TemporaryFolder folder;
    Bench bench;
    bench.device().algorithms() =
        QuickInPairs(std::chrono::microseconds(enqueue));
    // The second planner reads the measurements of the first.
    for (int process = 0; process < 2; ++process) {
      LocalSolver planner(Options(folder.path()));
      const auto plan =
          planner.Plan(TinyProblem(), BatchSize(4), 64_MiB, bench.Get());
      ASSERT_TRUE(plan) << plan.error().message;
      const std::string expected = enqueue == 3 ? "quick" : "frugal";
      EXPECT_EQ(plan->micro_batches[0].algorithm.name, expected);
      const LocalSolver::Kernel kernel{TinyProblem(), BatchSize(4)};
      const auto divided = planner.Divide({&kernel, 1}, 1_MiB, bench.Get());
      ASSERT_TRUE(divided) << divided.error().message;
      EXPECT_EQ((*divided)[0].micro_batches[0].algorithm.name, expected);
    }
  }
}

TEST(LocalSolverTest, DividesWhateverTheHostTakesIfReplayed) {
  constexpr auto kReplayed = LocalSolver::Enqueueing::kReplayed;
  Bench bench;
  bench.device().algorithms() = QuickInPairs(std::chrono::microseconds(600));
  LocalSolver planner(Options());
  const BatchSize batch(4);
  const auto plan =
      planner.Plan(TinyProblem(), batch, 64_MiB, bench.Get(), kReplayed);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->micro_batches[0].algorithm.name, "quick");
  const Algorithm frugal = {"frugal", "", Precision::kFp32};
  EXPECT_EQ(planner.Beats(*plan, batch, frugal, bench.Get(), kReplayed), true);
  EXPECT_EQ(planner.Beats(*plan, batch, frugal, bench.Get()), false);
  const LocalSolver::Kernel kernel{TinyProblem(), batch};
  const auto divided =
      planner.Divide({&kernel, 1}, 1_MiB, bench.Get(), kReplayed);
  ASSERT_TRUE(divided) << divided.error().message;
  EXPECT_EQ((*divided)[0].micro_batches[0].algorithm.name, "quick");
}

TEST(LocalSolverTest, BeatsOnlyCallsThatAreSlowerBeyondNoise) {
  Bench bench;
  const Algorithm lavish = bench.device().algorithms()[0].algorithm;
  const Algorithm frugal = bench.device().algorithms()[1].algorithm;
  bench.device().algorithms()[0].time = std::chrono::microseconds(500);
  bench.device().algorithms()[1].time = std::chrono::microseconds(600);
  LocalSolver planner(Options());
  const BatchSize batch(8);
  const auto plan = planner.Plan(TinyProblem(), batch, 64_MiB, bench.Get());
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_THAT(plan->micro_batches, SizeIs(1));
  EXPECT_EQ(plan->micro_batches[0].algorithm, lavish);
  EXPECT_EQ(planner.Beats(*plan, batch, lavish, bench.Get()), false);
  EXPECT_EQ(planner.Beats(*plan, batch, frugal, bench.Get()), true);
  // The host would take as long for the plan as the device for the other call.
  bench.device().algorithms()[0].enqueue = std::chrono::microseconds(600);
  LocalSolver busy(Options());
  EXPECT_EQ(busy.Plan(TinyProblem(), batch, 64_MiB, bench.Get()), *plan);
  EXPECT_EQ(busy.Beats(*plan, batch, frugal, bench.Get()), false);
}

TEST(LocalSolverTest, MeasuresTheCallThatItIsComparedWith) {
  Bench bench;
  bench.device().algorithms().push_back({{"hopeless", "", Precision::kFp32},
                                         0_B,
                                         kMaxBatchSize,
                                         std::numeric_limits<int>::max(),
                                         std::chrono::milliseconds(1)});
  const Algorithm hopeless = bench.device().algorithms()[2].algorithm;
  LocalSolver planner(Options());
  const auto plan =
      planner.Plan(TinyProblem(), BatchSize(8), 64_MiB, bench.Get());
  ASSERT_TRUE(plan) << plan.error().message;
  const int asked = bench.asked();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(planner.Beats(*plan, BatchSize(8), hopeless, bench.Get()), true);
    EXPECT_EQ(bench.asked(), asked + 1);
  }
  const auto unknown = planner.Beats(
      *plan, BatchSize(8), {"none", "", Precision::kFp32}, bench.Get());
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kNotFound);
}

TEST(LocalSolverTest, UsesOnlyDeterministicAlgorithmsIfAskedTo) {
  EXPECT_FALSE(IsDeterministic(ConvOp::kBackwardFilter, {"ALGO_3", "", {}}));
  EXPECT_TRUE(IsDeterministic(ConvOp::kBackwardFilter, {"ALGO_1", "", {}}));
  EXPECT_FALSE(IsDeterministic(ConvOp::kBackwardData, {"ALGO_0", "", {}}));
  EXPECT_FALSE(IsDeterministic(ConvOp::kBackwardData, {"2xALGO_0", "", {}}));
  EXPECT_TRUE(IsDeterministic(ConvOp::kForward, {"GEMM", "", {}}));
  auto options = Options();
  options.settings.deterministic = true;
  LocalSolver planner(options);
  Bench bench;
  bench.device().algorithms() = {{{"ALGO_0", "", Precision::kFp32}, 0_B},
                                 {{"ALGO_1", "", Precision::kFp32}, 10_B}};
  ConvProblem problem = TinyProblem();
  problem.op = ConvOp::kBackwardData;
  const auto plan = planner.Plan(problem, BatchSize(4), 64_MiB, bench.Get());
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(plan->micro_batches,
              Each(Field(&MicroBatch::algorithm,
                         Algorithm{"ALGO_1", "", Precision::kFp32})));
}

}  // namespace
}  // namespace ucudnn
