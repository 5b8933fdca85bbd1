// Training graphs as JSON: what is written is read back, and what is wrong is
// named.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/training/build.h"
#include "base/training/costs.h"
#include "base/training/json.h"
#include "tests/support/small_networks.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TrainingGraph OnK40(const Graph& network) {
  TrainingGraph graph = *BuildTrainingGraph(network, {});
  DeviceModel device = *DeviceModelPreset("K40");
  device.transfer_latency = Nanoseconds(1500);
  device.duplex = false;
  device.algorithms = {{"WINOGRAD_NONFUSED", 2.0}};
  EXPECT_TRUE(SetDevice(device, &graph));
  return graph;
}

// Two tasks, with as little said of them as is accepted.
Json Least() {
  return Json::parse(R"({
    "network": "toy", "precision": "FP32", "batch": 4,
    "device": {"d2h_bytes_per_us": 100.0, "h2d_bytes_per_us": 50.5},
    "blocks": [{"name": "x", "kind": "input", "bytes_per_image": 8},
               {"name": "w", "kind": "weight", "bytes": 16},
               {"name": "y", "kind": "activation", "bytes": 4}],
    "tasks": [
      {"name": "conv.forward", "kind": "forward", "reads": ["x", "w"],
       "writes": ["y"], "costs": [
         {"batch": 4, "algorithm": "GEMM", "time_us": 2.5},
         {"batch": 2, "algorithm": "GEMM", "time_us": 1.75},
         {"batch": 4, "algorithm": "FFT", "workspace_bytes": 64,
          "time_us": 2}]},
      {"name": "conv.update", "kind": "update", "reads": ["w"],
       "writes": ["w"], "costs": [{"time_us": 1.001}]}]})");
}

// An update has one time, whichever batch it was measured on.
TEST(GraphJsonTest, KnowsTheMeasuredBatches) {
  TrainingGraph graph = *BuildTrainingGraph(test::SmallChain(16), {});
  EXPECT_THAT(MeasuredBatchesOf(graph), ElementsAre(BatchSize(16)));
  const auto measure = [](std::int64_t batch, Task* task) {
    task->work.measured.emplace_back().batch = BatchSize(batch);
  };
  measure(8, &graph.tasks.front());
  measure(4, &graph.tasks.front());
  for (Task& task : graph.tasks) {
    if (task.kind == TaskKind::kUpdate) measure(1, &task);
  }
  EXPECT_THAT(MeasuredBatchesOf(graph),
              ElementsAre(BatchSize(4), BatchSize(8), BatchSize(16)));
}

TEST(GraphJsonTest, ReadsBackWhatItWrites) {
  const std::vector<BatchSize> batches = {BatchSize(1), BatchSize(6),
                                          BatchSize(16)};
  for (const Graph& network :
       {test::SmallChain(16), test::SmallResidual(16), test::SmallInception(16),
        test::SmallExcitation(16)}) {
    const TrainingGraph graph = OnK40(network);
    const Json json = ToJson(graph, batches);
    const Result<TrainingGraph> read =
        ParseTrainingGraph(json.dump(), "graph.json");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(ToJson(*read, batches), json);
    EXPECT_EQ(read->blocks, graph.blocks);
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      EXPECT_EQ(read->tasks[i].reads, graph.tasks[i].reads);
      EXPECT_EQ(read->tasks[i].work.conv, graph.tasks[i].work.conv);
      const TrainingLayer& layer = graph.layers[graph.tasks[i].layer];
      EXPECT_EQ(read->layers[read->tasks[i].layer], layer);
    }
    const Bytes size(123457);
    EXPECT_EQ(read->device.OffloadTime(size), graph.device.OffloadTime(size));
  }
}

TaskCost Way(const std::string& algorithm, std::int64_t workspace,
             std::int64_t ns) {
  TaskCost cost;
  cost.algorithm.name = algorithm;
  cost.workspace = Bytes(workspace);
  cost.time = Nanoseconds(ns);
  return cost;
}

TEST(GraphJsonTest, CostsAreMeasurementsOfTheirBatches) {
  const TrainingGraph graph = TrainingGraphOf(Least(), "").value();
  const Task& conv = graph.tasks[0];
  EXPECT_THAT(CostsAt(graph, conv, BatchSize(4)),
              ElementsAre(Way("GEMM", 0, 2500), Way("FFT", 64, 2000)));
  EXPECT_TRUE(CostsAt(graph, conv, BatchSize(3)).empty());
  EXPECT_EQ(PointsOf(graph, conv, BatchSize(4)).size(), 3U);
  EXPECT_THAT(CostsAt(graph, graph.tasks[1], BatchSize(3)),
              ElementsAre(Way("", 0, 1001)));
}

TEST(GraphJsonTest, FillsInWhatMayBeLeftOut) {
  const Result<TrainingGraph> graph = TrainingGraphOf(Least(), "");
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->blocks[0].bytes, Bytes(0));
  EXPECT_EQ(graph->blocks[1].bytes_per_image, Bytes(0));
  EXPECT_FALSE(graph->blocks[1].persistent);
  EXPECT_THAT(graph->layers, ElementsAre(TrainingLayer{"conv", ""}));
  EXPECT_EQ(graph->tasks[1].layer, 0U);
  EXPECT_FALSE(graph->tasks[0].work.conv);
  EXPECT_TRUE(graph->device.duplex);
  EXPECT_EQ(graph->device.transfer_latency, Nanoseconds(0));
}

TEST(GraphJsonTest, NamesThePathTheValueAndWhatIsAccepted) {
  const auto task = [](Json& j) -> Json& { return j["tasks"][0]; };
  const auto cost = [](Json& j) -> Json& { return j["tasks"][0]["costs"][0]; };
  struct Case {
    std::function<void(Json&)> change;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](Json& j) { j = 5; }, "g.json: the document is 5; an object"},
      {[](Json& j) { j["batch"] = 0; },
       "g.json: batch is 0; a whole number from 1 to 16777216 is accepted"},
      {[](Json& j) { j["precision"] = "FP31"; },
       "precision: 'FP31' is not a precision; one of FP32, TF32"},
      {[](Json& j) { j.erase("device"); }, "device is missing; an object"},
      {[](Json& j) { j["device"]["h2d_bytes_per_us"] = 0; },
       "device.h2d_bytes_per_us is 0; a number from 0.001"},
      {[](Json& j) { j["blocks"][1]["kind"] = "wight"; },
       "blocks[1].kind: 'wight' is not a kind of block; one of input,"},
      {[](Json& j) { j["blocks"][1]["name"] = ""; },
       "blocks[1].name: '' is not a name"},
      {[](Json& j) { j["blocks"][1]["name"] = "x"; },
       "blocks[1].name is \"x\"; a name that no other block has"},
      {[](Json& j) { j["blocks"][1]["bytes"] = -4; },
       "blocks[1].bytes is -4; a whole number from 0"},
      {[](Json& j) {
         j["blocks"][2]["bytes_per_image"] = std::int64_t{1} << 60;
       },
       "blocks[2] is object of 4; a size that keeps the sum below 2^62"},
      {[](Json& j) { j["tasks"][1]["name"] = "conv.forward"; },
       "tasks[1].name is \"conv.forward\"; a name that no other task has"},
      {[&](Json& j) { task(j)["kind"] = "sideways"; },
       "tasks[0].kind: 'sideways' is not a kind of task; one of forward"},
      {[&](Json& j) { task(j)["reads"][1] = "v"; },
       "tasks[0].reads[1] is \"v\"; the name of a block"},
      {[&](Json& j) { task(j)["reads"][1] = 7; },
       "tasks[0].reads[1] is 7; the name of a block"},
      {[&](Json& j) { task(j)["reads"][1] = "x"; },
       "tasks[0].reads[1] is \"x\"; each block once"},
      {[&](Json& j) { task(j)["problem"] = "forward"; },
       "tasks[0].problem: convolution problem 'forward'"},
      {[&](Json& j) { task(j)["costs"] = Json::array(); },
       "tasks[0].costs is array of 0; one without a batch, or one for each"},
      {[&](Json& j) { cost(j).erase("batch"); },
       "tasks[0].costs[0].algorithm is \"GEMM\"; none, where there is no"},
      {[&](Json& j) { cost(j).erase("time_us"); },
       "tasks[0].costs[0].time_us is missing; a number of microseconds"},
      {[&](Json& j) { task(j)["costs"][2]["algorithm"] = "GEMM"; },
       "tasks[0].costs[2] is object of 4; another batch or algorithm"},
      {[&](Json& j) { task(j)["costs"][2].erase("algorithm"); },
       "tasks[0].costs[2].workspace_bytes is 64; 0, where no algorithm"},
      {[](Json& j) {
         j["tasks"][1]["costs"].push_back({{"batch", 2}, {"time_us", 1}});
       },
       "tasks[1].costs is array of 2; one without a batch, or one for each"},
  };
  for (const Case& wrong : cases) {
    Json json = Least();
    wrong.change(json);
    const Result<TrainingGraph> read =
        ParseTrainingGraph(json.dump(), "g.json");
    ASSERT_FALSE(read) << wrong.message;
    EXPECT_EQ(read.error().code, Code::kInvalidArgument);
    EXPECT_THAT(read.error().message, HasSubstr(wrong.message));
  }
}

}  // namespace
}  // namespace ucudnn
