#ifndef UCUDNN_TESTS_SOLVER_MEMORY_MODNN_HAND_GRAPH_H_
#define UCUDNN_TESTS_SOLVER_MEMORY_MODNN_HAND_GRAPH_H_

// Training graphs written by hand: sizes in units of 256 bytes an image, times
// in microseconds.

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/conv_problem.h"
#include "base/training/graph.h"

namespace ucudnn::test {

inline constexpr std::int64_t kUnitBytes = 256;

class HandGraph {
 public:
  // The link moves a unit in a microsecond, each way.
  explicit HandGraph(std::int64_t batch) {
    graph_.network = "hand";
    graph_.batch = BatchSize(batch);
    graph_.device = *DeviceModelPreset("K40");
    graph_.device.d2h_rate = graph_.device.h2d_rate = kUnitBytes;
    graph_.layers = {{"all", "Other"}};
  }

  // `units` an image; weights and their gradients `units` whatever the batch.
  std::size_t Block(const std::string& name, BlockKind kind,
                    std::int64_t units) {
    MemoryBlock block;
    block.name = name;
    block.kind = kind;
    block.persistent = kind == BlockKind::kWeight;
    const bool fixed = block.persistent || kind == BlockKind::kWeightGradient;
    (fixed ? block.bytes : block.bytes_per_image) = Bytes(units * kUnitBytes);
    graph_.blocks.push_back(std::move(block));
    return graph_.blocks.size() - 1;
  }
  std::size_t Activation(const std::string& name, std::int64_t units) {
    return Block(name, BlockKind::kActivation, units);
  }

  std::size_t Task(const std::string& name, TaskKind kind,
                   std::vector<std::size_t> reads,
                   std::vector<std::size_t> writes, std::int64_t time_us = 1) {
    ucudnn::Task task;
    task.name = name;
    task.kind = kind;
    task.reads = std::move(reads);
    task.writes = std::move(writes);
    task.work.fixed = std::chrono::microseconds(time_us);
    graph_.tasks.push_back(std::move(task));
    return graph_.tasks.size() - 1;
  }
  std::size_t Forward(const std::string& name, std::vector<std::size_t> reads,
                      std::vector<std::size_t> writes,
                      std::int64_t time_us = 1) {
    return Task(name, TaskKind::kForward, std::move(reads), std::move(writes),
                time_us);
  }

  // A way to run the last task, a convolution, measured at this batch.
  void Measured(std::int64_t batch, const std::string& algorithm,
                std::int64_t workspace_units, std::int64_t time_us) {
    TaskWork& work = graph_.tasks.back().work;
    work.fixed.reset();
    work.conv = ConvProblem();
    MeasuredPoint point;
    point.batch = BatchSize(batch);
    point.algorithm.name = algorithm;
    point.workspace = Bytes(workspace_units * kUnitBytes);
    point.time = std::chrono::microseconds(time_us);
    work.measured.push_back(std::move(point));
  }

  const TrainingGraph& graph() const { return graph_; }

 private:
  TrainingGraph graph_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SOLVER_MEMORY_MODNN_HAND_GRAPH_H_
