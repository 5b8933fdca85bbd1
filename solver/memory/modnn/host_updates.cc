#include "solver/memory/modnn/host_updates.h"

#include <algorithm>

namespace ucudnn {
namespace {

using MemoryStream::kCompute;
using MemoryStream::kCopy;

Bytes GradientsOf(const TrainingGraph& graph, const Task& update) {
  Bytes sum;
  for (const std::size_t block : update.reads) {
    const MemoryBlock& b = graph.blocks[block];
    if (b.kind == BlockKind::kWeightGradient) sum += b.bytes;
  }
  return sum;
}

}  // namespace

Result<TrainingGraph> PartOfOneGpu(const TrainingGraph& graph, int gpus) {
  if (gpus < 1 || graph.batch.count() % gpus != 0) {
    return Fail(Code::kInvalidArgument,
                "{} GPUs cannot share the mini-batch of {} images; a number "
                "that divides it is accepted",
                gpus, graph.batch.count());
  }
  TrainingGraph part = graph;
  if (gpus == 1) return part;
  part.batch = BatchSize(graph.batch.count() / gpus);
  part.device.d2h_rate /= gpus;
  part.device.h2d_rate /= gpus;
  for (Task& task : part.tasks) {
    if (task.kind != TaskKind::kUpdate) continue;
    task.kind = TaskKind::kHostUpdate;
    task.work = {};
    task.work.fixed = TimeAtRate(
        static_cast<double>((GradientsOf(graph, task) * gpus).count()),
        kHostAddRate);
  }
  return part;
}

Nanoseconds NaiveExchangeTime(const TrainingGraph& graph, int gpus) {
  Bytes gradients;
  for (const MemoryBlock& block : graph.blocks) {
    if (block.kind == BlockKind::kWeightGradient) gradients += block.bytes;
  }
  const auto there_and_back = static_cast<double>(gradients.count());
  return (TimeAtRate(there_and_back, graph.device.d2h_rate) +
          TimeAtRate(there_and_back, graph.device.h2d_rate)) *
         (gpus - 1);
}

HostUpdates::HostUpdates(const RoundModel& round) : round_(round) {
  const TrainingGraph& graph = *round.graph;
  // The last use of a block by a task of the device.
  const auto last_use = [&](std::size_t block) {
    std::size_t last = 0;
    for (const std::size_t use : round.uses[block]) {
      const Task& task = graph.tasks[round.tasks[use]];
      if (task.kind != TaskKind::kHostUpdate) last = std::max(last, use);
    }
    return last;
  };
  for (const std::size_t i : round.tasks) {
    const Task& task = graph.tasks[i];
    if (task.kind != TaskKind::kHostUpdate) continue;
    Update update{i, 0, 0};
    for (const std::size_t block : round.BlocksOf(i)) {
      const bool gradient =
          graph.blocks[block].kind == BlockKind::kWeightGradient;
      std::size_t& place = gradient ? update.gradient : update.reader;
      place = std::max(place, last_use(block));
    }
    updates_.push_back(update);
  }
}

void HostUpdates::After(std::size_t position, Timeline* timeline) {
  for (const Update& update : updates_) {
    if (update.gradient != position) continue;
    for (const std::size_t block : round_.reads[update.task]) {
      if (round_.graph->blocks[block].kind == BlockKind::kWeightGradient) {
        timeline->Offload(block, kCopy);
      }
    }
    running_.push_back(
        {update, timeline->Compute(
                     update.task,
                     {{}, Bytes(0), round_.costs[update.task].back().time})});
  }
  std::erase_if(running_, [&](const Running& running) {
    if (running.update.reader > position ||
        timeline->End(running.done) > timeline->Now(kCompute)) {
      return false;
    }
    Fetch(running.update, timeline);
    return true;
  });
}

void HostUpdates::Finish(Timeline* timeline) {
  for (const Running& running : running_) Fetch(running.update, timeline);
  running_.clear();
}

void HostUpdates::Fetch(const Update& update, Timeline* timeline) const {
  for (const std::size_t block : round_.graph->tasks[update.task].writes) {
    timeline->Prefetch(block, kCopy);
  }
}

}  // namespace ucudnn
