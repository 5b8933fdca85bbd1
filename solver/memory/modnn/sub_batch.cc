#include "solver/memory/modnn/sub_batch.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "solver/memory/request.h"
#include "solver/memory/round_bound.h"

namespace ucudnn {
namespace {

// Alpha of equation (8), in percent.
constexpr std::size_t kWindowPercent = 15;

// A normalisation that is part of its convolution's layer (Fusion::kPaper). The
// source has no task for it.
bool WithinALayer(const TrainingGraph& graph, const Task& task) {
  if (graph.layers[task.layer].op_type == "BatchNormalization") return false;
  const auto statistics = [&](std::size_t block) {
    return graph.blocks[block].kind == BlockKind::kStatistics;
  };
  return std::ranges::any_of(task.reads, statistics) ||
         std::ranges::any_of(task.writes, statistics);
}

// By block, which one counts in its place. A layer of the source has one error
// (2); in a graph it has a second one where a normalisation within the layer
// must not overwrite an error that others still read.
std::vector<std::size_t> ErrorsOfLayers(const TrainingGraph& graph) {
  std::vector<std::size_t> errors(graph.blocks.size());
  std::iota(errors.begin(), errors.end(), std::size_t{0});
  const auto error_in = [&](const std::vector<std::size_t>& blocks) {
    return std::ranges::find_if(blocks, [&](std::size_t block) {
      return graph.blocks[block].kind == BlockKind::kGradient;
    });
  };
  for (const Task& task : graph.tasks) {
    if (task.kind != TaskKind::kBackward || !WithinALayer(graph, task))
      continue;
    const auto from = error_in(task.reads);
    const auto to = error_in(task.writes);
    if (from != task.reads.end() && to != task.writes.end()) {
      errors[*to] = errors[*from];
    }
  }
  return errors;
}

// The batches at which every task has a cost; absent if any batch will do.
std::optional<std::set<BatchSize>> MeasuredBatches(const TrainingGraph& graph) {
  std::optional<std::set<BatchSize>> common;
  for (const Task& task : graph.tasks) {
    if (IsUpdate(task.kind) || task.work.fixed || task.work.measured.empty()) {
      continue;
    }
    std::set<BatchSize> batches;
    for (const MeasuredPoint& point : task.work.measured) {
      if (!common || common->count(point.batch) > 0) {
        batches.insert(point.batch);
      }
    }
    common = std::move(batches);
  }
  return common;
}

// Sub-batches for which all rounds were measured, rising.
std::vector<BatchSize> Candidates(const TrainingGraph& graph) {
  const std::optional<std::set<BatchSize>> measured = MeasuredBatches(graph);
  const auto known = [&](std::int64_t batch) {
    return !measured || measured->count(BatchSize(batch)) > 0;
  };
  std::vector<BatchSize> candidates;
  const std::int64_t all = graph.batch.count();
  for (std::int64_t b = 1; b <= all; ++b) {
    if (known(b) && known((all - 1) % b + 1)) {
      candidates.push_back(BatchSize(b));
    }
  }
  return candidates;
}

bool Tuned(BatchSize batch) {
  const auto b = static_cast<std::uint64_t>(batch.count());
  return b >= 64 ? b % 64 == 0 : std::has_single_bit(b);
}

}  // namespace

Bytes ModnnLeastBytes(const TrainingGraph& graph) {
  Bytes weights;
  for (const MemoryBlock& block : graph.blocks) {
    if (block.persistent) weights += block.bytes;
  }
  Bytes largest;
  for (const Task& task : graph.tasks) {
    Bytes sum;
    for (const std::size_t block : BlocksOf(task)) {
      if (graph.blocks[block].persistent) continue;
      sum += graph.blocks[block].SizeAt(BatchSize(1));
    }
    largest = std::max(largest, sum);
  }
  return weights + largest;
}

Bytes ModnnNeededBytes(const TrainingGraph& graph, BatchSize batch) {
  Bytes staying;
  std::vector<Bytes> sizes;  // of blocks that may leave
  for (const MemoryBlock& block : graph.blocks) {
    const Bytes size = Aligned(block.SizeAt(batch));
    sizes.push_back(Stays(block, true) ? Bytes(0) : size);
    staying += size - sizes.back();
  }
  const std::vector<std::size_t> errors = ErrorsOfLayers(graph);
  std::vector<std::vector<std::size_t>> blocks;  // by task of (8)
  std::vector<Bytes> workspaces;
  Bytes most;
  for (const Task& task : graph.tasks) {
    if (IsUpdate(task.kind)) continue;
    const Bytes workspace =
        Aligned(CostsAt(graph, task, batch).back().workspace);
    std::set<std::size_t> own;
    Bytes sum = workspace;
    for (const std::size_t block : BlocksOf(task)) {
      own.insert(errors[block]);
      sum += sizes[block];
    }
    most = std::max(most, sum);  // (6)
    if (WithinALayer(graph, task)) continue;
    blocks.emplace_back(own.begin(), own.end());
    workspaces.push_back(workspace);
  }
  const std::size_t window =
      std::max<std::size_t>(1, blocks.size() * kWindowPercent / 100);
  std::vector<int> uses(sizes.size());  // in the window
  Bytes sum;
  for (std::size_t end = 1; end <= blocks.size(); ++end) {
    for (const std::size_t block : blocks[end - 1]) {
      if (++uses[block] == 1) sum += sizes[block];
    }
    const std::size_t begin = end < window ? 0 : end - window;
    if (begin > 0) {
      for (const std::size_t block : blocks[begin - 1]) {
        if (--uses[block] == 0) sum -= sizes[block];
      }
    }
    Bytes workspace;
    for (std::size_t i = begin; i < end; ++i) {
      workspace = std::max(workspace, workspaces[i]);
    }
    most = std::max(most, sum + workspace);
  }
  return staying + most;
}

Result<ModnnSubBatch> ChooseModnnSubBatch(const TrainingGraph& graph,
                                          Bytes budget) {
  const std::vector<BatchSize> candidates = Candidates(graph);
  if (candidates.empty()) {
    return Fail(Code::kFailedPrecondition,
                "no batch of 1 to {} was measured for every task, undivided; "
                "measure one that divides {}",
                graph.batch.count(), graph.batch.count());
  }
  const auto too_large =
      std::ranges::partition_point(candidates, [&](BatchSize batch) {
        return ModnnNeededBytes(graph, batch) <= budget;
      });
  if (too_large == candidates.begin()) {
    return ModnnSubBatch{BatchSize(0), candidates.front()};
  }
  const BatchSize largest = *std::prev(too_large);
  if (largest == graph.batch) return ModnnSubBatch{largest, largest};
  const auto tuned = std::find_if(std::make_reverse_iterator(too_large),
                                  candidates.rend(), Tuned);
  return ModnnSubBatch{largest, tuned == candidates.rend() ? largest : *tuned};
}

}  // namespace ucudnn
