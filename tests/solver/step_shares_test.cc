#include "solver/step_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "tests/support/trials.h"

namespace ucudnn {
namespace step_shares {  // short names that other tests have, too
namespace {

using ::testing::HasSubstr;

MeasuredStep At(std::int64_t batch, std::int64_t ns, std::int64_t peak = 0) {
  return {BatchSize(batch), Nanoseconds(ns), Bytes(peak)};
}

StepKind Kind(std::vector<MeasuredStep> steps, Bytes memory = Bytes::Max()) {
  return {.name = "K", .memory = memory, .steps = std::move(steps)};
}

std::vector<std::int64_t> Batches(const StepShares& shares) {
  std::vector<std::int64_t> batches;
  for (const GpuStep& gpu : shares.gpus) batches.push_back(gpu.batch.count());
  return batches;
}

// What a batch of the kind takes; absent if it has no step.
using TimeOf =
    std::function<std::optional<std::int64_t>(const StepKind&, std::int64_t)>;

// Straight from the header's words, by doubles.
std::optional<std::int64_t> PassTime(const StepKind& kind, std::int64_t batch) {
  const auto least =
      std::min(kind.steps.front().batch.count(),
               kind.least.count() == 0 ? kind.steps.front().batch.count()
                                       : kind.least.count());
  if (batch < least) return std::nullopt;
  for (std::size_t i = 0; i < kind.steps.size(); ++i) {
    const MeasuredStep& step = kind.steps[i];
    if (batch > step.batch.count()) continue;
    std::int64_t time = step.time.count();
    double peak = static_cast<double>(step.peak.count());
    if (i > 0) {
      const MeasuredStep& from = kind.steps[i - 1];
      const double part =
          static_cast<double>(batch - from.batch.count()) /
          static_cast<double>(step.batch.count() - from.batch.count());
      const auto rise = static_cast<double>(time - from.time.count());
      time = from.time.count() + std::llround(part * rise);
      const auto low = static_cast<double>(from.peak.count());
      peak = low + (peak - low) * part;
    }
    if (peak > static_cast<double>(kind.memory.count())) return std::nullopt;
    return time;
  }
  return std::nullopt;
}

// The largest batch of one pass that memory holds.
std::int64_t Most(const StepKind& kind) {
  std::int64_t most = 0;
  for (std::int64_t b = 1; b <= kind.steps.back().batch.count(); ++b) {
    if (PassTime(kind, b)) most = b;
  }
  return most;
}

std::optional<std::int64_t> MeasuredTime(const StepKind& kind,
                                         std::int64_t batch) {
  const std::int64_t most = Most(kind);
  if (batch <= most || most == 0) return PassTime(kind, batch);
  const std::int64_t passes = (batch + most - 1) / most;
  if (passes > kind.passes || batch % passes != 0) return std::nullopt;
  const auto pass = PassTime(kind, batch / passes);
  return pass ? std::optional(passes * *pass) : std::nullopt;
}

std::optional<std::int64_t> PlannedTime(const StepKind& kind,
                                        std::int64_t batch) {
  for (std::size_t i = 0; i < kind.steps.size(); ++i) {
    const MeasuredStep& step = kind.steps[i];
    if (batch > step.batch.count()) continue;
    RecordedStep recorded = *step.recorded;
    if (i > 0) {
      const MeasuredStep& from = kind.steps[i - 1];
      recorded = Between(
          *from.recorded, recorded,
          static_cast<double>(batch - from.batch.count()) /
              static_cast<double>(step.batch.count() - from.batch.count()));
    } else if (batch < step.batch.count()) {
      return std::nullopt;
    }
    const auto plan = PlanRecordedStep(recorded, {.budget = kind.memory});
    if (!plan) return std::nullopt;
    return plan->time.count();
  }
  return std::nullopt;
}

// The least time of all ways to share the batch.
std::optional<std::int64_t> BruteForce(const StepProblem& problem,
                                       const TimeOf& time_of) {
  const std::int64_t batch = problem.batch.count();
  std::vector<std::vector<std::optional<std::int64_t>>> times;
  for (const StepKind& kind : problem.kinds) {
    times.emplace_back();
    for (std::int64_t b = 0; b <= batch; ++b) {
      times.back().push_back(b == 0 ? std::nullopt : time_of(kind, b));
    }
  }
  std::optional<std::int64_t> best;
  const std::function<void(std::size_t, std::int64_t, std::int64_t)> share =
      [&](std::size_t gpu, std::int64_t left, std::int64_t slowest) {
        if (gpu == problem.gpus.size()) {
          if (left == 0 && (!best || slowest < *best)) best = slowest;
          return;
        }
        if (!problem.all_gpus) share(gpu + 1, left, slowest);
        for (std::int64_t b = 1; b <= left; ++b) {
          const auto& time =
              times[problem.gpus[gpu]][static_cast<std::size_t>(b)];
          if (time) share(gpu + 1, left - b, std::max(slowest, *time));
        }
      };
  share(0, batch, 0);
  return best;
}

StepProblem DrawnProblem(std::mt19937& random) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  StepProblem problem;
  problem.batch = BatchSize(draw(1, 12));
  problem.all_gpus = draw(0, 1) == 1;
  for (std::int64_t k = draw(1, 2); k > 0; --k) {
    StepKind& kind = problem.kinds.emplace_back(Kind({}));
    std::int64_t batch = 0;
    for (std::int64_t i = draw(1, 4); i > 0; --i) {
      batch += draw(1, 4);
      kind.steps.push_back(
          // Which may fall with the batch.
          At(batch, 100 * batch + draw(0, 500), 10 * batch + draw(0, 20)));
    }
    if (draw(0, 1) == 1) kind.memory = Bytes(draw(30, 160));
    if (draw(0, 2) == 0) kind.least = BatchSize(1);
    if (draw(0, 1) == 1) kind.passes = draw(1, 4);
  }
  for (std::int64_t g = draw(1, 3); g > 0; --g) {
    problem.gpus.push_back(
        static_cast<std::size_t>(draw(0, std::ssize(problem.kinds) - 1)));
  }
  return problem;
}

TEST(StepSharesTest, IsAsFastAsTheBestOfAllShares) {
  std::mt19937 random(1);
  int solved = 0;
  bool several = false;
  for (int trial = 0; trial < Trials(3000); ++trial) {
    const StepProblem problem = DrawnProblem(random);
    const auto best = BruteForce(problem, MeasuredTime);
    const auto shares = ShareSteps(problem);
    ASSERT_EQ(shares.has_value(), best.has_value())
        << trial << (shares ? "" : ": " + shares.error().message);
    if (!shares) {
      EXPECT_EQ(shares.error().code, Code::kFailedPrecondition);
      continue;
    }
    ++solved;
    ASSERT_EQ(shares->lower_bound.count(), *best) << trial;
    std::int64_t sum = 0;
    std::int64_t slowest = 0;
    for (std::size_t g = 0; g < shares->gpus.size(); ++g) {
      const GpuStep& gpu = shares->gpus[g];
      sum += gpu.batch.count();
      if (gpu.batch == BatchSize(0)) continue;
      const StepKind& kind = problem.kinds[problem.gpus[g]];
      ASSERT_EQ(gpu.time.count(), MeasuredTime(kind, gpu.batch.count()));
      ASSERT_LE(gpu.peak, kind.memory);
      ASSERT_EQ(gpu.batch.count() % gpu.passes, 0);
      ASSERT_LE(gpu.batch.count() / gpu.passes, Most(kind));
      several = several || gpu.passes > 1;
      slowest = std::max(slowest, gpu.time.count());
    }
    ASSERT_EQ(sum, problem.batch.count());
    ASSERT_EQ(slowest, shares->makespan.count());
    StepProblem given = problem;
    for (const GpuStep& gpu : shares->gpus) given.shares.push_back(gpu.batch);
    const auto told = ShareSteps(given);
    ASSERT_TRUE(told) << trial;
    ASSERT_EQ(told->gpus, shares->gpus) << trial;
    ASSERT_EQ(told->makespan, shares->makespan) << trial;
    ASSERT_EQ(told->even, shares->even) << trial;
    // Even shares may take 1 % longer where every GPU gets images.
    ASSERT_LE(slowest * 99, *best * (problem.all_gpus ? 100 : 99)) << trial;
  }
  EXPECT_GT(solved, Trials(1000));
  EXPECT_TRUE(several);
}

// A chain of layers of which each saves a tensor that the backward pass needs
// in reverse.
RecordedStep Chain(std::int64_t batch, std::int64_t ns, std::size_t layers) {
  RecordedStep step;
  step.link.d2h_rate = step.link.h2d_rate = 500;
  const std::size_t segments = 2 * layers + 2;
  for (std::size_t s = 0; s < segments; ++s) {
    step.segments.push_back({Nanoseconds(ns * batch + 100 * std::int64_t(s)),
                             Bytes(256 * batch), 2 * s >= segments});
  }
  for (std::size_t i = 0; i < layers; ++i) {
    RecordedTensor& tensor = step.tensors.emplace_back();
    tensor.bytes = Bytes(256 * batch * std::int64_t(1 + i % 3));
    tensor.hook = i;
    tensor.uses = {segments - 1 - i};
  }
  return step;
}

MeasuredStep Recorded(std::int64_t batch, std::int64_t ns) {
  return {.batch = BatchSize(batch), .recorded = Chain(batch, ns, 4)};
}

TEST(StepSharesTest, PlansRecordedStepsWithinMemory) {
  bool moves = false;
  for (const std::int64_t kib : {2, 4, 6, 9, 100}) {
    for (const bool all : {false, true}) {
      StepProblem problem;
      problem.batch = BatchSize(9);
      problem.all_gpus = all;
      problem.kinds = {
          Kind({Recorded(1, 700), Recorded(4, 500), Recorded(8, 450)},
               Bytes(kib << 10)),
          Kind({Recorded(2, 1500), Recorded(9, 1400)}, 100_KiB)};
      problem.gpus = {0, 1};
      const auto best = BruteForce(problem, PlannedTime);
      const auto shares = ShareSteps(problem);
      ASSERT_EQ(shares.has_value(), best.has_value())
          << kib << (shares ? "" : ": " + shares.error().message);
      if (!shares) continue;
      EXPECT_EQ(shares->lower_bound.count(), *best) << kib;
      EXPECT_FALSE(shares->cut_off);
      for (std::size_t g = 0; g < 2; ++g) {
        const GpuStep& gpu = shares->gpus[g];
        EXPECT_LE(gpu.peak, problem.kinds[g].memory);
        if (gpu.batch == BatchSize(0)) continue;
        EXPECT_EQ(gpu.time.count(),
                  PlannedTime(problem.kinds[g], gpu.batch.count()));
        StepProblem roomy = problem;
        roomy.kinds[0].memory = Bytes::Max();
        moves = moves || gpu.time > gpu.lower_bound ||
                ShareSteps(roomy)->makespan < shares->makespan;
      }
    }
  }
  EXPECT_TRUE(moves);
}

TEST(StepSharesTest, TakesEvenSharesWhereUnevenOnesAreNoFasterThanNoise) {
  StepProblem problem;
  problem.batch = BatchSize(8);
  problem.all_gpus = true;
  problem.kinds = {Kind({At(1, 1000), At(4, 1005), At(8, 2000)}),
                   Kind({At(1, 1000), At(3, 1001), At(8, 2000)})};
  problem.gpus = {0, 1};
  const auto shares = ShareSteps(problem);
  ASSERT_TRUE(shares) << shares.error().message;
  EXPECT_EQ(shares->makespan, shares->even);
  EXPECT_EQ(Batches(*shares), (std::vector<std::int64_t>{4, 4}));
}

TEST(StepSharesTest, StopsWithTheBestSoFar) {
  StepProblem problem;
  problem.batch = BatchSize(9);
  problem.kinds = {Kind({Recorded(1, 700), Recorded(8, 450)}, 8_KiB),
                   Kind({Recorded(2, 1500), Recorded(9, 1400)}, 100_KiB)};
  problem.gpus = {0, 1};
  std::stop_source stop;
  stop.request_stop();
  problem.stop = stop.get_token();
  const auto shares = ShareSteps(problem);
  ASSERT_TRUE(shares) << shares.error().message;
  EXPECT_LE(shares->lower_bound, shares->makespan);
}

TEST(StepSharesTest, SaysWhatWouldDo) {
  const auto error_of = [](const StepProblem& problem) {
    const auto shares = ShareSteps(problem);
    return shares ? "none" : shares.error().message;
  };
  StepProblem problem;
  problem.batch = BatchSize(20);
  problem.kinds = {Kind({At(2, 10, 100), At(8, 40, 400)}, Bytes(250)),
                   Kind({At(4, 10)})};
  problem.kinds[0].name = "small";
  problem.gpus = {0, 0, 1};
  EXPECT_EQ(error_of(problem),
            "the mini-batch is 20; at most 14 is accepted, as there are steps "
            "on small of 5, which fit into 250; on K of 4, the largest "
            "measured");
  problem.batch = BatchSize(1);
  EXPECT_EQ(error_of(problem),
            "the mini-batch is 1; 2 or more is accepted, the least that can be "
            "computed");
  problem.batch = BatchSize(20);
  problem.kinds[1].passes = 1;
  EXPECT_THAT(error_of(problem), HasSubstr("on K of 4, the largest that fits"));
  problem.shares = {BatchSize(20), BatchSize(0)};
  EXPECT_EQ(error_of(problem),
            "2 shares of 20 images; one of each of the 3 GPUs, 20 images "
            "together, is accepted");
  problem.shares.emplace_back(0);
  EXPECT_EQ(error_of(problem), "there is no step of one of the shares");
  problem.shares.clear();
  problem.all_gpus = true;
  problem.batch = BatchSize(7);
  EXPECT_EQ(error_of(problem),
            "the mini-batch is 7 for 3 GPUs, all of which get images; 8 or "
            "more is accepted");
  problem.batch = BatchSize(9);
  problem.kinds[0].memory = Bytes(99);
  EXPECT_EQ(error_of(problem),
            "small: no step fits into 99; of 2 images, the least, it takes "
            "100");
  problem.kinds[0].steps = {Recorded(2, 10)};
  EXPECT_THAT(error_of(problem), HasSubstr("the least that is accepted is"));
}

TEST(StepSharesTest, RefusesWhatContradictsItself) {
  const auto error_of = [](const StepKind& kind) {
    const Status checked = CheckStepKind(kind);
    return checked ? "none" : checked.error().message;
  };
  EXPECT_EQ(error_of(Kind({At(1, 1), At(2, 1)})), "none");
  EXPECT_THAT(error_of(Kind({})), HasSubstr("no step was measured"));
  EXPECT_EQ(error_of(Kind({At(2, 1), At(2, 1)})),
            "K: batch 2: rising batches are accepted");
  EXPECT_THAT(error_of(Kind({At(1, 1), Recorded(2, 1)})),
              HasSubstr("either all steps of a kind are recorded, or none"));
  StepKind least = Kind({At(8, 1)});
  least.least = BatchSize(9);
  EXPECT_EQ(error_of(least),
            "K: least: 9; up to 8, the first batch of its steps, is accepted");
  StepKind passes = Kind({Recorded(1, 1)});
  passes.passes = 2;
  EXPECT_EQ(error_of(passes), "K: batch 1: a recorded step is one pass");
  MeasuredStep other = Recorded(2, 1);
  other.recorded = Chain(2, 1, 5);
  EXPECT_THAT(error_of(Kind({Recorded(1, 1), other})),
              HasSubstr("are not those of batch 1"));
  other.recorded->tensors[0].uses.clear();
  EXPECT_THAT(error_of(Kind({other})), HasSubstr("K: batch 2: tensors[0]"));
}

}  // namespace
}  // namespace step_shares
}  // namespace ucudnn
