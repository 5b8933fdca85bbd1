#ifndef UCUDNN_TESTS_SOLVER_MEMORY_SMALL_GRAPHS_H_
#define UCUDNN_TESTS_SOLVER_MEMORY_SMALL_GRAPHS_H_

// Training graphs of the small networks (tests/support/small_networks.h) on a
// device to match.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/training/build.h"
#include "base/training/costs.h"
#include "solver/memory/policies.h"
#include "tests/support/small_networks.h"
#include "tests/support/trials.h"

namespace ucudnn::test {

// A device so small that the small networks' plans are as those of large ones,
// with algorithms that need workspace.
inline TrainingGraph OnSmallDevice(const Graph& network,
                                   double link_gb_per_s = 5) {
  Result<TrainingGraph> graph = BuildTrainingGraph(network, {});
  EXPECT_TRUE(graph) << graph.error().message;
  DeviceModel device = *DeviceModelPreset("K40");
  device.d2h_rate = device.h2d_rate = link_gb_per_s * 1e3;
  device.algorithms = {{"WINOGRAD_NONFUSED", 2.0}, {"FFT", 1.5}};
  EXPECT_TRUE(SetDevice(device, &*graph));
  return *std::move(graph);
}

inline std::vector<TrainingGraph> SmallGraphs(std::int64_t batch) {
  return {OnSmallDevice(SmallChain(batch)), OnSmallDevice(SmallResidual(batch)),
          OnSmallDevice(SmallInception(batch)),
          OnSmallDevice(SmallExcitation(batch)),
          OnSmallDevice(SmallChain(batch), 0.2)};
}

// Fewer of them under sanitizers.
inline std::vector<TrainingGraph> SomeSmallGraphs(std::int64_t batch) {
  std::vector<TrainingGraph> graphs = SmallGraphs(batch);
  if (kSlowed) graphs.resize(2);
  return graphs;
}

// Builds the training graph of a mini-batch of one image from blocks of given
// sizes and tasks of given times, in program order.
class GraphMaker {
 public:
  // `link_rate` both ways, in bytes a microsecond.
  explicit GraphMaker(double link_rate) {
    graph_.batch = BatchSize(1);
    graph_.device.d2h_rate = graph_.device.h2d_rate = link_rate;
    graph_.layers.emplace_back();  // of all tasks
  }

  std::size_t Block(std::int64_t bytes,
                    BlockKind kind = BlockKind::kActivation) {
    const std::string name = "b" + std::to_string(graph_.blocks.size());
    graph_.blocks.push_back({name, kind, Bytes(bytes), Bytes(0), false});
    return graph_.blocks.size() - 1;
  }

  void Run(TaskKind kind, std::vector<std::size_t> reads,
           std::vector<std::size_t> writes, Nanoseconds time) {
    Task task;
    task.name = "t" + std::to_string(graph_.tasks.size());
    task.kind = kind;
    task.reads = std::move(reads);
    task.writes = std::move(writes);
    task.recomputable = kind == TaskKind::kForward;
    task.work.fixed = time;
    graph_.tasks.push_back(std::move(task));
  }

  // A way to run a task: with so much workspace it takes so long.
  struct Way {
    std::int64_t workspace;
    Nanoseconds time;
  };

  void RunInWays(TaskKind kind, std::vector<std::size_t> reads,
                 std::vector<std::size_t> writes,
                 const std::vector<Way>& ways) {
    Run(kind, std::move(reads), std::move(writes), Nanoseconds(0));
    TaskWork& work = graph_.tasks.back().work;
    work.fixed.reset();
    for (const Way& way : ways) {
      MeasuredPoint point;
      point.batch = graph_.batch;
      point.algorithm.name = "a" + std::to_string(work.measured.size());
      point.workspace = Bytes(way.workspace);
      point.time = way.time;
      work.measured.push_back(std::move(point));
    }
  }

  TrainingGraph graph() const { return graph_; }

 private:
  TrainingGraph graph_;
};

inline Bytes PeakOf(const TrainingGraph& graph) {
  return PlanMemory(graph, {.budget = 1_GiB * 1024},
                    *FindMemoryPolicy("baseline").value())
      .value()
      .peak;
}

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SOLVER_MEMORY_SMALL_GRAPHS_H_
