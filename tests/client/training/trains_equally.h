#ifndef UCUDNN_TESTS_CLIENT_TRAINING_TRAINS_EQUALLY_H_
#define UCUDNN_TESTS_CLIENT_TRAINING_TRAINS_EQUALLY_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/client/training/trainee.h"

namespace ucudnn::test {

inline std::vector<std::string> OffloadingPolicies() {
  return {"vdnn-all-m",     "vdnn-conv-m", "vdnn-dyn", "vdnn-ext",
          "vdnn-ext-all-m", "hmms",        "modnn",    "best"};
}

// In the least memory of each policy, with all else poisoned: bit by bit what
// the network does without a budget.
inline void ExpectSameUnderAllPolicies(Trainee& trainee, float rate = 0.01F) {
  const MemoryPlan undivided = trainee.Undivided();
  const auto expected = trainee.Train(undivided, {.rate = rate});
  ASSERT_EQ(expected.losses.size(), 3U);
  EXPECT_LT(expected.losses[2], expected.losses[0]);
  int moved = 0;
  for (const std::string& policy : OffloadingPolicies()) {
    SCOPED_TRACE(policy);
    const auto plan = trainee.PlanInLeastMemory(policy);
    ASSERT_TRUE(plan);
    if (plan->offloaded > Bytes()) ++moved;
    const auto outcome = trainee.Train(*plan, {.rate = rate, .poison = true});
    EXPECT_EQ(outcome.losses, expected.losses);
    EXPECT_EQ(outcome.parameters, expected.parameters);
  }
  // Three always move; measured times decide whether the others do.
  EXPECT_GE(moved, 3);
}

// A small step down the gradient g takes rate * |g|² from the loss. Of networks
// without dropouts, which differ from step to step.
inline void ExpectStepsDownTheGradient(Trainee& trainee) {
  constexpr float kRate = 1e-4F;
  const MemoryPlan plan = trainee.Undivided();
  const auto executor = *trainee.Executor(plan, {.rate = kRate});
  const TrainingBatch batch = trainee.BatchFor(*executor);
  const double before = executor->Step(batch)->loss;
  const Parameters moved = *executor->Download();
  const double after = executor->Step(batch)->loss;
  double squares = 0;
  for (const auto& [block, values] : trainee.parameters()) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double change = double{moved.at(block)[i]} - double{values[i]};
      squares += change * change;
    }
  }
  const double expected = squares / double{kRate};
  EXPECT_NEAR(before - after, expected, 0.05 * expected);
}

// The same for `best` with more freedom. Its plan.
inline MemoryPlan ExpectSameInLeastMemory(Trainee& trainee,
                                          const MemoryRequest& freedom) {
  const MemoryPlan undivided = trainee.Undivided();
  const auto expected = trainee.Train(undivided, {});
  auto plan = trainee.PlanInLeastMemory("best", freedom);
  EXPECT_TRUE(plan) << plan.error().message;
  if (!plan) return {};
  const auto outcome = trainee.Train(*plan, {.poison = true});
  EXPECT_EQ(outcome.losses, expected.losses);
  EXPECT_EQ(outcome.parameters, expected.parameters);
  return *std::move(plan);
}

inline bool RunsSomethingTwice(const MemoryPlan& plan) {
  std::set<std::size_t> seen;
  return std::ranges::any_of(plan.rounds.at(0).events, [&](const auto& event) {
    return event.op == EventOp::kCompute && !seen.insert(event.task).second;
  });
}

inline bool LeavesWeightsOnTheHost(const TrainingGraph& training,
                                   const MemoryPlan& plan) {
  return std::ranges::any_of(plan.rounds.at(0).events, [&](const auto& event) {
    return event.op == EventOp::kPrefetch &&
           training.blocks[event.block].kind == BlockKind::kWeight;
  });
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_CLIENT_TRAINING_TRAINS_EQUALLY_H_
