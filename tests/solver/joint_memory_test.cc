#include "solver/joint_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "solver/check/memory_plan.h"
#include "tests/solver/memory/small_graphs.h"
#include "tests/support/trials.h"

namespace ucudnn {
namespace {

using test::OnSmallDevice;

TrainingGraph Slower(TrainingGraph graph, double factor) {
  graph.device.arithmetic.fp32 /= factor;
  graph.device.memory_rate /= factor;
  return graph;
}

// Tries every way to share the mini-batch, with the plan of every share.
std::optional<Nanoseconds> BruteForce(const JointMemoryProblem& problem) {
  const std::int64_t batch = problem.batch.count();
  std::vector<std::vector<std::optional<Nanoseconds>>> times;
  for (const JointMemoryKind& kind : problem.kinds) {
    times.emplace_back().resize(static_cast<std::size_t>(batch) + 1);
    for (std::int64_t b = problem.step.count(); b <= batch;
         b += problem.step.count()) {
      if (!kind.shares.empty() &&
          !std::ranges::binary_search(kind.shares, BatchSize(b))) {
        continue;
      }
      MemoryRequest request = problem.request;
      request.budget = kind.budget;
      const auto plan =
          problem.policy->plan(AtBatch(kind, BatchSize(b)), request);
      if (plan) times.back()[static_cast<std::size_t>(b)] = plan->time;
    }
  }
  std::optional<Nanoseconds> best;
  const std::function<void(std::size_t, std::int64_t, Nanoseconds)> share =
      [&](std::size_t gpu, std::int64_t left, Nanoseconds slowest) {
        if (gpu == problem.gpus.size()) {
          if (left == 0 && (!best || slowest < *best)) best = slowest;
          return;
        }
        share(gpu + 1, left, slowest);
        for (std::int64_t b = 1; b <= left; ++b) {
          const auto& time =
              times[problem.gpus[gpu]][static_cast<std::size_t>(b)];
          if (time) share(gpu + 1, left - b, std::max(slowest, *time));
        }
      };
  share(0, batch, Nanoseconds(0));
  return best;
}

TEST(JointMemoryTest, IsAsFastAsTheBestOfAllAssignments) {
  std::mt19937 random(5);
  const auto up_to = [&](int most) {
    return std::uniform_int_distribution(1, most)(random);
  };
  int solved = 0;
  int few = 0;
  for (int trial = 0; trial < (kSlowed ? 4 : 12); ++trial) {
    const Graph network =
        trial % 2 == 0 ? test::SmallChain(8) : test::SmallResidual(8);
    JointMemoryProblem problem;
    problem.batch = BatchSize(5 + up_to(3));
    const char* policies[] = {"vdnn-ext", "modnn", "best", "hmms"};
    problem.policy = FindMemoryPolicy(policies[trial % 4]).value();
    for (int k = 0; k < 2; ++k) {
      const TrainingGraph graph =
          Slower(OnSmallDevice(network, 0.5 * up_to(6)), up_to(4));
      problem.kinds.push_back({graph, test::PeakOf(graph) * up_to(8) / 8});
      problem.gpus.push_back(static_cast<std::size_t>(k));
    }
    if (trial % 3 == 0) problem.gpus.push_back(1);
    if (trial % 4 >= 2) {
      for (BatchSize share(1); share <= problem.batch;
           share = share + BatchSize(up_to(3))) {
        problem.kinds[0].shares.push_back(share);
      }
    }
    const auto expected = BruteForce(problem);
    const Result<JointMemoryPlan> joint = SolveJointMemory(problem);
    ASSERT_EQ(joint.has_value(), expected.has_value());
    if (!joint) continue;
    ++solved;
    EXPECT_EQ(joint->assignment.makespan, *expected);
    EXPECT_EQ(joint->lower_bound, *expected);
    EXPECT_LE(joint->least, *expected);
    few += joint->planned < 2 * problem.batch.count() ? 1 : 0;
    BatchSize sum;
    for (std::size_t g = 0; g < problem.gpus.size(); ++g) {
      const Share& share = joint->assignment.shares[g];
      sum = sum + share.batch;
      if (share.batch == BatchSize(0)) continue;
      const std::size_t kind = problem.gpus[g];
      const MemoryPlan& plan = joint->plans.at({kind, share.batch});
      EXPECT_EQ(plan.time, share.time);
      EXPECT_LE(plan.peak, problem.kinds[kind].budget);
      const Status valid =
          ValidateMemoryPlan(plan, AtBatch(problem.kinds[kind], share.batch));
      EXPECT_TRUE(valid) << valid.error().message;
    }
    EXPECT_EQ(sum, problem.batch);
  }
  EXPECT_GT(solved, kSlowed ? 2 : 6);
  EXPECT_GT(few, 0);
}

// Two alike GPUs, one with little memory.
JointMemoryProblem LittleMemory() {
  JointMemoryProblem problem;
  problem.batch = BatchSize(32);
  problem.policy = FindMemoryPolicy("best").value();
  const TrainingGraph graph = OnSmallDevice(test::SmallChain(32), 20);
  const Bytes all = test::PeakOf(graph);
  problem.kinds = {{graph, all}, {graph, all / 4}};
  problem.gpus = {0, 1};
  problem.request.sub_batch = std::nullopt;
  return problem;
}

TEST(JointMemoryTest, AGpuOfLittleMemoryOffloadsIfThatEndsEarlier) {
  JointMemoryProblem problem = LittleMemory();
  problem.policy = FindMemoryPolicy("vdnn-ext").value();  // no sub-batches
  const auto joint = SolveJointMemory(problem);
  ASSERT_TRUE(joint) << joint.error().message;
  const Share& little = joint->assignment.shares[1];
  EXPECT_GT(little.batch, joint->whole[1]);
  const MemoryPlan& plan = joint->plans.at({1, little.batch});
  EXPECT_GT(plan.offloaded, Bytes(0));
  ASSERT_TRUE(joint->makespan_whole);
  EXPECT_LT(joint->assignment.makespan, *joint->makespan_whole);
}

TEST(JointMemoryTest, SharesAreMultiplesOfTheStep) {
  JointMemoryProblem problem = LittleMemory();
  problem.step = BatchSize(8);
  const auto joint = SolveJointMemory(problem);
  ASSERT_TRUE(joint) << joint.error().message;
  for (const Share& share : joint->assignment.shares) {
    EXPECT_EQ(share.batch.count() % 8, 0);
  }
  problem.batch = BatchSize(33);
  const auto none = SolveJointMemory(problem);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kFailedPrecondition);
}

// A policy that requests the stop after its first plan.
std::stop_source* stop_after_first = nullptr;
Result<MemoryPlan> PlanAndStop(const TrainingGraph& graph,
                               const MemoryRequest& request) {
  auto plan = FindMemoryPolicy("modnn").value()->plan(graph, request);
  stop_after_first->request_stop();
  return plan;
}

TEST(JointMemoryTest, SaysThatItWasCutOffAndNotWhatItDidNotCompare) {
  std::stop_source stop;
  stop_after_first = &stop;
  const MemoryPolicy stopping{"modnn", "", PlanAndStop};
  JointMemoryProblem problem = LittleMemory();
  problem.request.stop = stop.get_token();
  problem.policy = &stopping;
  const auto joint = SolveJointMemory(problem);
  ASSERT_TRUE(joint) << joint.error().message;
  EXPECT_TRUE(joint->cut_off);
  EXPECT_FALSE(joint->makespan_whole);
  EXPECT_EQ(joint->whole, std::vector<BatchSize>(2));
  EXPECT_FALSE(SolveJointMemory(LittleMemory())->cut_off);
}

TEST(JointMemoryTest, RefusesWhatItCannotPlan) {
  const auto refused =
      [](const std::function<void(JointMemoryProblem*)>& change) {
        JointMemoryProblem problem = LittleMemory();
        change(&problem);
        const auto joint = SolveJointMemory(problem);
        return joint ? Error() : joint.error();
      };
  using Problem = JointMemoryProblem;
  for (const auto& error :
       {refused([](Problem* p) { p->batch = BatchSize(0); }),
        refused([](Problem* p) { p->step = BatchSize(0); }),
        refused([](Problem* p) {
          p->kinds[0].shares = {BatchSize(2), BatchSize(2)};
        }),
        refused(
            [](Problem* p) { p->kinds[0].shares = {p->batch + BatchSize(1)}; }),
        refused([](Problem* p) { p->gpus.clear(); }),
        refused([](Problem* p) { p->gpus[0] = 2; }),
        refused([](Problem* p) { p->kinds[0].budget = Bytes(0); })}) {
    EXPECT_EQ(error.code, Code::kInvalidArgument) << error.message;
  }
  EXPECT_EQ(refused([](Problem* p) {
              for (auto& kind : p->kinds) kind.budget = 1_KiB;
            }).code,
            Code::kFailedPrecondition);
}

TEST(JointMemoryTest, StopsAtTheFirstAssignmentThatCanBePlanned) {
  std::stop_source stop;
  stop.request_stop();
  JointMemoryProblem problem = LittleMemory();
  problem.request.stop = stop.get_token();
  const auto joint = SolveJointMemory(problem);
  ASSERT_TRUE(joint) << joint.error().message;
  EXPECT_TRUE(joint->cut_off);
  EXPECT_LE(joint->lower_bound, joint->assignment.makespan);
  EXPECT_LE(joint->least, joint->lower_bound);
  const auto best = SolveJointMemory(LittleMemory());
  ASSERT_TRUE(best) << best.error().message;
  EXPECT_LE(joint->lower_bound, best->assignment.makespan);
  EXPECT_LE(best->assignment.makespan, joint->assignment.makespan);
}

TEST(JointMemoryTest, SaysWhyAGpuHasItsShare) {
  JointMemoryProblem problem = LittleMemory();
  problem.policy = FindMemoryPolicy("vdnn-ext").value();
  const auto joint = SolveJointMemory(problem);
  ASSERT_TRUE(joint) << joint.error().message;
  EXPECT_THAT(WhyShare(problem, *joint, 1),
              testing::AllOf(testing::HasSubstr("to the host and"),
                             testing::HasSubstr("would fit whole")));
}

}  // namespace
}  // namespace ucudnn
