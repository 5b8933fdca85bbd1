// Ranks of one process, each with a device, a plan and an executor in a thread
// of its own, beside one that trains the whole mini-batch.

#include "device/training/rank_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/onednn/onednn_device.h"
#include "tests/client/training/trainee.h"
#include "tests/client/training/trains_equally.h"
#include "tests/support/small_networks.h"

namespace ucudnn {
namespace {

using test::Trainee;
using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

constexpr TrainingOptions kForRanks = {
    .momentum = true, .running_statistics = true, .updates_at_end = true};
constexpr int kSteps = 5;

// Where threads add up what each of them has.
class Meeting {
 public:
  explicit Meeting(std::size_t ranks)
      : parts_(ranks), all_here_(std::ptrdiff_t(ranks)) {}

  template <class T>
  void Sum(std::size_t rank, std::span<T> values) {
    parts_[rank].assign(values.begin(), values.end());
    all_here_.arrive_and_wait();
    for (std::size_t i = 0; i < values.size(); ++i) {
      double sum = 0;
      for (const auto& part : parts_) sum += part.at(i);
      values[i] = static_cast<T>(sum);
    }
    all_here_.arrive_and_wait();
  }
  // The others go on without this one.
  void Leave() { all_here_.arrive_and_drop(); }

 private:
  std::vector<std::vector<double>> parts_;
  std::barrier<> all_here_;
};

// On devices whose memory is the host's.
class ThreadExchange final : public RankExchange {
 public:
  ThreadExchange(Meeting& meeting, std::size_t rank)
      : meeting_(meeting), rank_(rank) {}

  bool stream_ordered() const override { return false; }
  Status SumStatistics(std::span<double> sums) override {
    ++statistics;
    meeting_.Sum(rank_, sums);
    return {};
  }
  Status SumGradients(std::span<const ReadyBucket> ready_buckets) override {
    for (const ReadyBucket& bucket : ready_buckets) {
      ++buckets;
      for (Event* const ready : bucket.ready) {
        UCUDNN_RETURN_IF_ERROR(AwaitOnHost(*ready, *this));
      }
      for (const std::span<float> gradient : bucket.gradients) {
        meeting_.Sum(rank_, gradient);
      }
    }
    return {};
  }

  int statistics = 0;
  int buckets = 0;

 private:
  Meeting& meeting_;
  std::size_t rank_;
};

Trainee ForRanks(Graph graph, std::vector<BatchSize> batches = {},
                 const TrainingOptions& options = kForRanks) {
  return Trainee(*OpenOneDnnDevice({.threads = 1}), std::move(graph),
                 std::move(batches), test::kFastLink, options);
}

struct Trained {
  std::vector<double> losses;
  Parameters parameters;
  Evaluation evaluation;
  int statistics = 0;  // exchanges
  int buckets = 0;
};

// `kSteps` steps on the images of `whole` from `first` on.
Trained Train(Trainee& trainee, const MemoryPlan& plan,
              const ExecutionOptions& options, const SyntheticBatch& whole) {
  Trained trained;
  auto executor = trainee.Executor(plan, options);
  EXPECT_TRUE(executor) << executor.error().message;
  if (!executor) return trained;
  const TrainingBatch batch = *(*executor)->MakeBatch();
  const auto share = [&](const auto& all, auto& mine) {
    const std::size_t per_image =
        mine.size() / std::size_t(trainee.training().batch.count());
    std::copy_n(
        all.begin() + std::ptrdiff_t(std::size_t(options.first_image.count()) *
                                     per_image),
        mine.size(), mine.begin());
  };
  share(whole.images, batch.images);
  share(whole.labels, batch.labels);
  for (int i = 0; i < kSteps; ++i) {
    const auto step = (*executor)->Step(batch);
    EXPECT_TRUE(step) << step.error().message;
    if (!step) return trained;
    EXPECT_LE(step->passes, step->time);
    trained.losses.push_back(step->loss);
  }
  trained.parameters = *(*executor)->Download();
  trained.evaluation = *(*executor)->Evaluate(batch, trainee.training().batch);
  return trained;
}

// What ranks do: a share of images, in the least memory of a policy if one is
// named.
struct RankShare {
  std::int64_t images = 0;
  std::string policy = {};
  MemoryRequest request = {};
};

// All ranks' results. `build` makes the network for a number of images.
template <class Build>
std::vector<Trained> TrainInRanks(const Build& build,
                                  const std::vector<RankShare>& shares,
                                  const SyntheticBatch& whole,
                                  ExecutionOptions options) {
  std::vector<Trained> results(shares.size());
  Meeting meeting(shares.size());
  BatchSize first;
  for (const RankShare& share : shares) {
    options.mini_batch = options.mini_batch + BatchSize(share.images);
  }
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    options.first_image = first;
    first = first + BatchSize(shares[rank].images);
    threads.emplace_back([&, rank, options]() mutable {
      const RankShare& share = shares[rank];
      ThreadExchange exchange(meeting, rank);
      options.exchange = &exchange;
      if (share.images == 0) {
        Trainee trainee = ForRanks(build(1));
        auto idle =
            IdleRank::Create(trainee.device(), trainee.training(),
                             trainee.operations(), options.exchange_statistics);
        for (int i = 0; i < kSteps; ++i) EXPECT_TRUE(idle->Step(exchange));
      } else {
        Trainee trainee = ForRanks(build(share.images));
        const auto plan =
            share.policy.empty()
                ? trainee.Undivided()
                : *trainee.PlanInLeastMemory(share.policy, share.request);
        results[rank] = Train(trainee, plan, options, whole);
      }
      results[rank].statistics = exchange.statistics;
      results[rank].buckets = exchange.buckets;
      meeting.Leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<double> SumOfLosses(const std::vector<Trained>& ranks) {
  std::vector<double> sums(kSteps);
  for (const Trained& rank : ranks) {
    for (std::size_t i = 0; i < rank.losses.size(); ++i) {
      sums[i] += rank.losses[i];
    }
  }
  return sums;
}

void ExpectNear(const Parameters& a, const Parameters& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [block, values] : a) {
    EXPECT_THAT(values,
                Pointwise(::testing::FloatNear(tolerance), b.at(block)));
  }
}

class RanksTest : public ::testing::Test {
 protected:
  RanksTest() : whole_(ForRanks(test::SmallResidual(8))) {
    expected_ = Train(whole_, whole_.Undivided(), options_, whole_.images());
    EXPECT_LT(expected_.losses.back(), expected_.losses.front());
  }

  // Rounding grows from step to step with the rate.
  ExecutionOptions options_ = {.rate = 0.004F, .momentum = 0.9F};
  Trainee whole_;
  Trained expected_;
};

TEST_F(RanksTest, HaveTheLossesOfOneWithTheWholeBatch) {
  const auto ranks =
      TrainInRanks(test::SmallResidual, {{3}, {5}}, whole_.images(), options_);
  EXPECT_THAT(SumOfLosses(ranks),
              Pointwise(DoubleNear(1e-5), expected_.losses));
  ExpectNear(ranks[0].parameters, expected_.parameters, 1e-4F);
  EXPECT_EQ(ranks[0].parameters, ranks[1].parameters);
  // Six normalisations, both ways.
  EXPECT_EQ(ranks[0].statistics, 12 * kSteps);
  const Evaluation& a = ranks[0].evaluation;
  const Evaluation& b = ranks[1].evaluation;
  EXPECT_EQ(a.labels + b.labels, 8);
  EXPECT_EQ(a.correct + b.correct, expected_.evaluation.correct);
  EXPECT_NEAR(a.loss + b.loss, expected_.evaluation.loss, 1e-3);
}

TEST_F(RanksTest, DoSoInUnlikeMemoryAndBesideOneWithoutImages) {
  MemoryRequest recompute;
  recompute.recompute = true;
  recompute.offload_weights = true;
  options_.poison = true;
  const auto ranks = TrainInRanks(
      test::SmallResidual, {{0}, {2, "vdnn-ext-all-m"}, {6, "best", recompute}},
      whole_.images(), options_);
  EXPECT_THAT(SumOfLosses(ranks),
              Pointwise(DoubleNear(1e-5), expected_.losses));
  EXPECT_EQ(ranks[1].parameters, ranks[2].parameters);
  EXPECT_EQ(ranks[0].statistics, ranks[2].statistics);
  EXPECT_EQ(ranks[0].buckets, ranks[2].buckets);
}

TEST_F(RanksTest, ExchangeNoStatisticsIfTheyAreTheirOwn) {
  options_.exchange_statistics = false;
  const auto ranks =
      TrainInRanks(test::SmallResidual, {{3}, {5}}, whole_.images(), options_);
  EXPECT_EQ(ranks[0].statistics, 0);
  EXPECT_LT(SumOfLosses(ranks).back(), SumOfLosses(ranks).front());
  // Running statistics are a rank's own.
  EXPECT_NE(ranks[0].parameters, ranks[1].parameters);
}

TEST(RankExchangeTest, SumsGradientsThatLieOnTheHost) {
  const auto build = [](std::int64_t batch) { return test::SmallChain(batch); };
  Trainee whole = ForRanks(build(8));
  const ExecutionOptions options = {.rate = 0.02F, .momentum = 0.9F};
  const Trained expected =
      Train(whole, whole.Undivided(), options, whole.images());
  MemoryRequest request;
  request.offload_weights = true;
  const auto ranks =
      TrainInRanks(build, {{4, "best", request}, {4}}, whole.images(), options);
  EXPECT_THAT(SumOfLosses(ranks), Pointwise(DoubleNear(1e-5), expected.losses));
}

TEST(RankExchangeTest, SumsBucketsInTheOrderOfTheBackwardPass) {
  Trainee trainee = ForRanks(test::SmallResidual(2));
  const TrainingGraph& training = trainee.training();
  const auto all = GradientBuckets(training, Bytes(1));
  const auto few = GradientBuckets(training, 10_KiB);
  EXPECT_LT(few.size(), all.size());
  std::vector<std::size_t> blocks;
  for (const GradientBucket& bucket : few) {
    Bytes size;
    for (const std::size_t block : bucket.blocks) {
      blocks.push_back(block);
      size += training.blocks[block].bytes;
    }
    EXPECT_EQ(bucket.size, size);
    const bool is_last = &bucket == &few.back();
    EXPECT_TRUE(is_last || size >= 10_KiB);
  }
  EXPECT_EQ(blocks.size(), all.size());
  EXPECT_EQ(training.blocks[blocks.front()].name, "fc.dW");
  EXPECT_EQ(training.blocks[blocks.back()].name, "conv1.dW");
}

TEST(RankExchangeTest, NeedsUpdatesAtTheEnd) {
  Trainee trainee = ForRanks(test::SmallChain(2), {}, {});
  Meeting meeting(1);
  ThreadExchange exchange(meeting, 0);
  const MemoryPlan plan = trainee.Undivided();
  const auto refused = trainee.Executor(plan, {.exchange = &exchange});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(refused.error().message, HasSubstr("updates at the end"));
}

TEST(RankExchangeTest, RefusesSubBatchesWhoseStatisticsAreExchanged) {
  Trainee trainee = ForRanks(test::SmallResidual(4), {BatchSize(2)});
  MemoryRequest request;
  request.sub_batch = BatchSize(2);
  const MemoryPlan plan = *trainee.Plan("modnn", 1_GiB, request);
  Meeting meeting(1);
  ThreadExchange exchange(meeting, 0);
  const auto refused = trainee.Executor(
      plan, {.exchange = &exchange, .allow_sub_batch_statistics = true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(refused.error().message, HasSubstr("one round"));
}

// One rank, with all that a trainer asks of the graph.
TEST(KeptStateTest, IsTheSameUnderAllPolicies) {
  Trainee trainee = ForRanks(test::SmallResidual(8));
  test::ExpectSameUnderAllPolicies(trainee);
}

TEST(KeptStateTest, GivesMomentumToUpdates) {
  test::NetworkBuilder n("net", 4);
  n.Gemm("fc", n.Flatten(n.Input(2, 2)), 3);
  const Graph graph = n.Finish();
  constexpr float kRate = 0.1F;
  Trainee trainee = ForRanks(graph);
  const MemoryPlan plan = trainee.Undivided();
  const auto executor =
      *trainee.Executor(plan, {.rate = kRate, .momentum = 0.9F});
  const TrainingBatch batch = trainee.BatchFor(*executor);
  ASSERT_TRUE(executor->Step(batch));
  const Parameters first = *executor->Download();
  ASSERT_TRUE(executor->Step(batch));
  const Parameters second = *executor->Download();
  // The second step's gradient.
  Trainee plain = ForRanks(graph, {}, {});
  plain.StartFrom(first);
  const MemoryPlan plain_plan = plain.Undivided();
  const auto once = *plain.Executor(plain_plan, {.rate = kRate});
  ASSERT_TRUE(once->Step(batch));
  const Parameters moved = *once->Download();
  ASSERT_EQ(first.size(), 2U);
  const std::size_t w = moved.begin()->first;
  const std::size_t v = first.rbegin()->first;
  for (std::size_t i = 0; i < first.at(w).size(); ++i) {
    const float gradient = (first.at(w)[i] - moved.at(w)[i]) / kRate;
    EXPECT_NEAR(second.at(v)[i], 0.9F * first.at(v)[i] + gradient, 1e-5F);
    EXPECT_NEAR(second.at(w)[i], first.at(w)[i] - kRate * second.at(v)[i],
                1e-6F);
  }
}

// PyTorch's: the mean moves by a tenth of its way, the variance is unbiased.
TEST(KeptStateTest, HasRunningStatisticsOfEveryStepOnce) {
  test::NetworkBuilder n("net", 4);
  const auto x = n.BatchNorm("bn", n.Conv("conv", n.Input(1, 4), 1, 1));
  n.Gemm("fc", n.Flatten(n.Relu("bn", x)), 3);
  Trainee trainee = ForRanks(n.Finish());
  // Y = 2 X + 1 before the normalisation.
  Parameters start = trainee.parameters();
  std::size_t bn = 0;
  for (std::size_t i = 0; i < trainee.training().blocks.size(); ++i) {
    const std::string& name = trainee.training().blocks[i].name;
    if (name == "conv.W") start[i] = {2, 1};
    if (name == "bn.W") bn = i;
  }
  trainee.StartFrom(start);
  const std::vector<float>& images = trainee.images().images;
  double mean = 0;
  double variance = 0;
  for (const float v : images) mean += (2 * double{v} + 1) / 64;
  for (const float v : images) {
    variance += (2 * double{v} + 1 - mean) * (2 * double{v} + 1 - mean) / 63;
  }
  MemoryRequest recompute;
  recompute.recompute = true;
  const MemoryPlan plan = *trainee.PlanInLeastMemory("best", recompute);
  const auto executor = *trainee.Executor(plan, {.poison = true});
  const TrainingBatch batch = trainee.BatchFor(*executor);
  ASSERT_EQ(images.size(), 64U);
  ASSERT_TRUE(executor->Step(batch));
  const std::vector<float> kept = executor->Download()->at(bn);
  EXPECT_NEAR(kept[2], 0.1 * mean, 1e-6);
  EXPECT_NEAR(kept[3], 0.9 + 0.1 * variance, 1e-6);
}

// Statistics run into those of the batch while the weights stay.
TEST(EvaluationTest, HasTheLossOfTheBatchOnceStatisticsHaveRun) {
  test::NetworkBuilder n("net", 4);
  auto x = n.Relu("bn", n.BatchNorm("bn", n.Conv("conv", n.Input(3, 8), 4, 3)));
  n.Gemm("fc", n.Flatten(n.Pool("pool", x, 2, 2)), 3);
  Trainee trainee = ForRanks(n.Finish(), {BatchSize(2)});
  const MemoryPlan plan = *trainee.PlanInLeastMemory("vdnn-ext-all-m");
  const auto executor = *trainee.Executor(plan, {.rate = 0, .poison = true});
  const TrainingBatch batch = trainee.BatchFor(*executor);
  double loss = 0;
  for (int i = 0; i < 100; ++i) loss = executor->Step(batch)->loss;
  const Parameters before = *executor->Download();
  const auto all = executor->Evaluate(batch, BatchSize(4));
  ASSERT_TRUE(all);
  EXPECT_EQ(all->labels, 4);
  // The variance that is kept is the unbiased one.
  EXPECT_NEAR(all->loss / 4, loss, 1e-2);
  const auto few = executor->Evaluate(batch, BatchSize(3));
  ASSERT_TRUE(few);
  EXPECT_EQ(few->labels, 3);
  EXPECT_LT(few->loss, all->loss);
  EXPECT_EQ(*executor->Download(), before);
  EXPECT_EQ(executor->Step(batch)->loss, loss);
  // The same in sub-batches.
  MemoryRequest request;
  request.sub_batch = BatchSize(2);
  const MemoryPlan halves = *trainee.Plan("modnn", 1_GiB, request);
  trainee.StartFrom(before);
  const auto other =
      *trainee.Executor(halves, {.allow_sub_batch_statistics = true});
  EXPECT_NEAR(other->Evaluate(batch, BatchSize(4))->loss, all->loss, 1e-5);
  EXPECT_EQ(other->Evaluate(batch, BatchSize(4))->correct, all->correct);
}

TEST(EvaluationTest, CountsWhatTheNetworkHasLearned) {
  Trainee trainee = ForRanks(test::SmallChain(4));
  const MemoryPlan plan = trainee.Undivided();
  const auto executor =
      *trainee.Executor(plan, {.rate = 0.01F, .momentum = 0.9F});
  const TrainingBatch batch = trainee.BatchFor(*executor);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(executor->Step(batch));
  EXPECT_EQ(executor->Evaluate(batch, BatchSize(4))->correct, 4);
  batch.labels[0] = (batch.labels[0] + 1) % 10;
  EXPECT_EQ(executor->Evaluate(batch, BatchSize(4))->correct, 3);
}

}  // namespace
}  // namespace ucudnn
