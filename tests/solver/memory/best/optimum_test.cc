// `best` on graphs so small that their optima are known: tests/data/memory,
// see tests/data/SOURCES.md.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/files/file.h"
#include "base/training/graph.h"
#include "solver/check/memory_plan.h"
#include "solver/memory/best/best.h"
#include "solver/memory/bounds.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

using Json = nlohmann::json;

Nanoseconds TimeOf(const Json& microseconds) {
  return Nanoseconds(std::llround(microseconds.get<double>() * 1000));
}

TrainingGraph GraphOf(const Json& json) {
  const std::map<std::string, BlockKind> block_kinds = {
      {"input", BlockKind::kInput},
      {"activation", BlockKind::kActivation},
      {"gradient", BlockKind::kGradient},
      {"weight", BlockKind::kWeight},
      {"weight_gradient", BlockKind::kWeightGradient}};
  const std::map<std::string, TaskKind> task_kinds = {
      {"forward", TaskKind::kForward},
      {"loss", TaskKind::kLoss},
      {"backward_filter", TaskKind::kBackwardFilter},
      {"backward_data", TaskKind::kBackwardData},
      {"update", TaskKind::kUpdate}};
  TrainingGraph graph;
  graph.network = json["network"];
  graph.batch = BatchSize(json["batch"].get<int>());
  const Json& device = json["device"];
  graph.device.d2h_rate = device["d2h_bytes_per_us"];
  graph.device.h2d_rate = device["h2d_bytes_per_us"];
  graph.device.duplex = device["duplex"];
  std::map<std::string, std::size_t> places;
  for (const Json& block : json["blocks"]) {
    places[block["name"]] = graph.blocks.size();
    graph.blocks.push_back({block["name"], block_kinds.at(block["kind"]),
                            Bytes(block["bytes"].get<std::int64_t>()), Bytes(0),
                            block.value("persistent", false)});
  }
  std::map<std::string, std::size_t> layers;  // by the number of the task
  for (const Json& task : json["tasks"]) {
    const std::string name = task["name"];
    // "1" of "f1", "bw1", "bd1" and "u1"; "loss" of "loss".
    const std::size_t digit = name.find_first_of("0123456789");
    const std::string layer = digit < name.size() ? name.substr(digit) : name;
    if (layers.emplace(layer, graph.layers.size()).second) {
      graph.layers.push_back({layer, layer == "loss" ? "loss" : "Conv"});
    }
    Task& added = graph.tasks.emplace_back();
    added.name = task["name"];
    added.layer = layers.at(layer);
    added.kind = task_kinds.at(task["kind"]);
    for (const Json& block : task["reads"]) {
      added.reads.push_back(places.at(block));
    }
    for (const Json& block : task["writes"]) {
      added.writes.push_back(places.at(block));
    }
    for (const Json& cost : task["costs"]) {
      if (!cost.contains("algorithm")) {
        added.work.fixed = TimeOf(cost["time_us"]);
        continue;
      }
      added.work.conv.emplace();  // only convolutions have algorithms
      MeasuredPoint& point = added.work.measured.emplace_back();
      point.batch = graph.batch;
      point.algorithm.name = cost["algorithm"];
      point.workspace = Bytes(cost["workspace_bytes"].get<std::int64_t>());
      point.time = TimeOf(cost["time_us"]);
    }
  }
  return graph;
}

// `time_us` is the optimum if inputs and activations may leave, undivided, in
// bytes without addresses; `pool_bytes` what its schedule needs with addresses.
// `any_kind_us` is the optimum if blocks of any kind may leave.
TEST(BestOptimumTest, IsAsFastAsTheOptimumThatCanBePlaced) {
  int equal = 0;
  int faster = 0;
  for (int number = 1; number <= 12; ++number) {
    const std::string name = "memory/tiny" + std::to_string(number) + ".json";
    const Result<std::string> text = ReadFile(test::DataPath(name), 1_MiB);
    ASSERT_TRUE(text) << text.error().message;
    const Json json = Json::parse(*text);
    const TrainingGraph graph = GraphOf(json);
    for (const Json& optimum : json["optima"]) {
      const Bytes budget(optimum["budget_bytes"].get<std::int64_t>());
      SCOPED_TRACE(name + " in " + std::to_string(budget.count()));
      ASSERT_LE(optimum["pool_bytes"], optimum["budget_bytes"]);
      const Nanoseconds time = TimeOf(optimum["time_us"]);
      Result<MemoryPlan> plan = PlanBest(graph, {.budget = budget});
      ASSERT_TRUE(plan) << plan.error().message;
      SetBounds(graph, &*plan);
      const Status valid = ValidateMemoryPlan(*plan, graph);
      EXPECT_TRUE(valid) << valid.error().message;
      EXPECT_LE(plan->time, time);
      EXPECT_LE(plan->lower_bound, time);
      EXPECT_GE(plan->time, TimeOf(optimum.value("any_kind_us", Json(0))));
      equal += plan->time == time ? 1 : 0;
      faster += plan->time < time ? 1 : 0;
    }
  }
  // Faster where gradients leave.
  EXPECT_GT(equal, 40);
  EXPECT_GT(faster, 0);
}

}  // namespace
}  // namespace ucudnn
