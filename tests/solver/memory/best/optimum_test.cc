// `best` on graphs so small that their optima are known: tests/data/memory,
// see tests/data/SOURCES.md.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/files/file.h"
#include "base/training/json.h"
#include "solver/check/memory_plan.h"
#include "solver/memory/best/best.h"
#include "solver/memory/bounds.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

Nanoseconds TimeOf(const Json& microseconds) {
  return Nanoseconds(std::llround(microseconds.get<double>() * 1000));
}

// Calls `check` with each graph, budget and optimum. There, `time_us` is the
// optimum if inputs and activations may leave, undivided, in bytes without
// addresses; `pool_bytes` what its schedule needs with addresses. `any_kind_us`
// is the optimum if blocks of any kind may leave.
template <typename Check>
void ForEachOptimum(const Check& check) {
  for (int number = 1; number <= 12; ++number) {
    const std::string name = "memory/tiny" + std::to_string(number) + ".json";
    const Result<std::string> text = ReadFile(test::DataPath(name), 1_MiB);
    ASSERT_TRUE(text) << text.error().message;
    const Json json = Json::parse(*text);
    const Result<TrainingGraph> graph = TrainingGraphOf(json, "");
    ASSERT_TRUE(graph) << graph.error().message;
    for (const Json& optimum : json["optima"]) {
      const Bytes budget(optimum["budget_bytes"].get<std::int64_t>());
      SCOPED_TRACE(name + " in " + std::to_string(budget.count()));
      check(*graph, budget, optimum);
    }
  }
}

TEST(BestOptimumTest, IsAsFastAsTheOptimumThatCanBePlaced) {
  int equal = 0;
  int faster = 0;
  ForEachOptimum(
      [&](const TrainingGraph& graph, Bytes budget, const Json& optimum) {
        ASSERT_LE(optimum["pool_bytes"], optimum["budget_bytes"]);
        const Nanoseconds time = TimeOf(optimum["time_us"]);
        const MemoryRequest request{.budget = budget};
        Result<MemoryPlan> plan = PlanBest(graph, request);
        ASSERT_TRUE(plan) << plan.error().message;
        SetBounds(graph, request, &*plan);
        const Status valid = ValidateMemoryPlan(*plan, graph);
        EXPECT_TRUE(valid) << valid.error().message;
        EXPECT_LE(plan->time, time);
        EXPECT_LE(plan->lower_bound, time);
        EXPECT_GE(plan->time, TimeOf(optimum.value("any_kind_us", Json(0))));
        equal += plan->time == time ? 1 : 0;
        faster += plan->time < time ? 1 : 0;
      });
  // Faster where gradients leave.
  EXPECT_GT(equal, 40);
  EXPECT_GT(faster, 0);
}

TEST(BestOptimumTest, IsNeverFasterThanTheBoundOfItsRound) {
  int above_the_sum = 0;
  ForEachOptimum(
      [&](const TrainingGraph& graph, Bytes budget, const Json& optimum) {
        const auto bound =
            LowerBoundsOfSubBatches(graph, budget, {}, {graph.batch}).front();
        ASSERT_TRUE(bound);
        EXPECT_LE(bound->time,
                  TimeOf(optimum.value("any_kind_us", optimum["time_us"])));
        above_the_sum += bound->time > *IdealTime(graph) ? 1 : 0;
      });
  EXPECT_GT(above_the_sum, 10);
}

}  // namespace
}  // namespace ucudnn
