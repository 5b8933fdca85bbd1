#include "solver/memory/vdnn.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "solver/memory/finish.h"
#include "solver/memory/placement.h"
#include "solver/memory/round_draft.h"
#include "solver/memory/round_model.h"

namespace ucudnn {
namespace {

using Offload = VdnnOptions::Offload;
using Algorithms = VdnnOptions::Algorithms;
using MemoryStream::kCompute;
using MemoryStream::kCopy;

// cnmem's granularity, which the source's program uses.
constexpr Bytes kUnit{512};

bool IsConvolution(const TrainingLayer& layer) {
  return layer.op_type == "Conv" || layer.op_type == "ConvTranspose";
}

// Layers whose inputs `all` offloads, where backward needs them.
bool IsFeatureLayer(const TrainingLayer& layer) {
  return IsConvolution(layer) || layer.op_type == "MaxPool" ||
         layer.op_type == "BatchNormalization" || layer.op_type == "LRN" ||
         layer.op_type == "Concat";
}

// A round's tasks by layers, as the paper goes through them: a forward step is
// a layer with its activation in place, a backward step all that the layer
// computes in the backward pass, with its update.
struct Step {
  std::size_t layer = 0;
  bool backward = false;
  std::size_t begin = 0;  // places in RoundModel::tasks: [begin, end)
  std::size_t end = 0;
  // Blocks that are read before they are written, but weights and their
  // gradients: of a forward step X, by place in the graph.
  std::vector<std::size_t> inputs;
};

// The steps in program order. Forward steps come first; the loss is one of
// them. A layer whose tasks are not next to each other has several.
std::vector<Step> StepsOf(const RoundModel& round) {
  const TrainingGraph& graph = *round.graph;
  std::vector<Step> steps;
  std::set<std::size_t> written;
  for (std::size_t i = 0; i < round.tasks.size(); ++i) {
    const Task& task = graph.tasks[round.tasks[i]];
    const bool backward =
        task.kind != TaskKind::kForward && task.kind != TaskKind::kLoss;
    if (steps.empty() || steps.back().layer != task.layer ||
        steps.back().backward != backward) {
      steps.push_back({task.layer, backward, i, i, {}});
      written.clear();
    }
    Step& step = steps.back();
    step.end = i + 1;
    for (const std::size_t block : task.reads) {
      const BlockKind kind = graph.blocks[block].kind;
      if (kind == BlockKind::kWeight || kind == BlockKind::kWeightGradient ||
          kind == BlockKind::kMomentum || written.count(block) > 0 ||
          std::ranges::count(step.inputs, block) > 0) {
        continue;
      }
      step.inputs.push_back(block);
    }
    written.insert(task.writes.begin(), task.writes.end());
  }
  return steps;
}

class VdnnRound {
 public:
  VdnnRound(const RoundModel& round,
            const std::vector<ResidentBlock>& residents, Bytes budget,
            MemoryPool::Fit fit, const VdnnOptions& options)
      : round_(round),
        graph_(*round.graph),
        options_(options),
        draft_(round, residents, budget, fit, kUnit),
        steps_(StepsOf(round)) {
    ChooseOffloads();
  }

  Result<MemoryRound> Plan() {
    std::size_t i = 0;
    for (; i < steps_.size() && !steps_[i].backward; ++i) {
      UCUDNN_RETURN_IF_ERROR(Forward(i));
    }
    // All offloads end before the backward pass starts (4.3).
    timeline().Sync(kCompute, timeline().Last(kCopy));
    for (; i < steps_.size(); ++i) {
      UCUDNN_RETURN_IF_ERROR(Backward(i));
    }
    return timeline().Finish();
  }

 private:
  Timeline& timeline() { return draft_.timeline(); }

  // off(l) for every forward step: the blocks that it offloads.
  void ChooseOffloads() {
    offloads_.resize(steps_.size());
    fetched_.resize(steps_.size());
    first_backward_ = 0;
    while (first_backward_ < steps_.size() &&
           !steps_[first_backward_].backward) {
      ++first_backward_;
    }
    if (options_.offload == Offload::kNone) return;
    // The loss, and the last layer before it, do not.
    for (std::size_t i = 0; i + 2 < first_backward_; ++i) {
      const TrainingLayer& layer = graph_.layers[steps_[i].layer];
      if (layer.op_type == "Gemm") break;
      if (options_.offload == Offload::kConv ? !IsConvolution(layer)
                                             : !IsFeatureLayer(layer)) {
        continue;
      }
      for (const std::size_t block : steps_[i].inputs) {
        const std::vector<std::size_t>& uses = round_.uses[block];
        const std::size_t backward_begin = first_backward_ < steps_.size()
                                               ? steps_[first_backward_].begin
                                               : round_.tasks.size();
        const auto later = std::ranges::lower_bound(uses, steps_[i].end);
        const bool last_reader =
            later == uses.end() || *later >= backward_begin;
        if (last_reader && later != uses.end()) offloads_[i].push_back(block);
      }
    }
  }

  // How the task runs, given `room` bytes for its workspace.
  TaskRun Choose(std::size_t task, Bytes room) const {
    const std::vector<TaskCost>& costs = round_.costs[task];
    std::size_t chosen = 0;
    if (options_.algorithms == Algorithms::kFastest) {
      chosen = costs.size() - 1;
    } else if (options_.algorithms == Algorithms::kGreedy) {
      while (chosen + 1 < costs.size() && costs[chosen + 1].workspace <= room) {
        ++chosen;
      }
    }
    return Undivided(costs[chosen], round_.batch);
  }

  // Runs the step's tasks in one workspace, the largest that they need, once
  // all of its inputs are there.
  Status ComputeStep(const Step& step, bool waiting) {
    std::vector<TaskRun> runs;
    Bytes workspace;
    const Bytes room = draft_.pool().LargestFree(timeline().Now(kCompute));
    for (std::size_t i = step.begin; i < step.end; ++i) {
      runs.push_back(Choose(round_.tasks[i], room));
      workspace = std::max(workspace, runs.back().workspace);
    }
    std::optional<MemoryRange> range = draft_.TakeWorkspace(workspace);
    while (!range) {
      const std::optional<Timeline::Event> next = draft_.pool().NextRelease();
      if (!waiting || !next) {
        return draft_.NoRoomFor("the workspace of " +
                                graph_.layers[step.layer].name);
      }
      timeline().Sync(kCompute, {*next});
      range = draft_.TakeWorkspace(workspace);
    }
    Timeline::Events arrivals;
    for (const std::size_t block : step.inputs) {
      const Timeline::Events writer = timeline().Writer(block);
      arrivals.insert(arrivals.end(), writer.begin(), writer.end());
    }
    for (std::size_t i = step.begin; i < step.end; ++i) {
      TaskRun& run = runs[i - step.begin];
      // Filter and data gradients share the larger workspace of the two.
      if (run.workspace > Bytes(0)) run.workspace = workspace;
      draft_.Compute(round_.tasks[i], run, *range, std::exchange(arrivals, {}));
    }
    workspace_ = *range;
    return {};
  }

  Status AllocOutputs(const Step& step, bool waiting) {
    for (std::size_t i = step.begin; i < step.end; ++i) {
      UCUDNN_RETURN_IF_ERROR(draft_.AllocOutputs(round_.tasks[i], waiting));
    }
    return {};
  }

  Status Forward(std::size_t i) {
    const Step& step = steps_[i];
    const bool waiting = !options_.synchronous;
    UCUDNN_RETURN_IF_ERROR(AllocOutputs(step, waiting));
    const Timeline::Events before = timeline().Last(kCompute);
    for (const std::size_t block : offloads_[i]) {
      if (!round_.IsInput(block)) timeline().Offload(block, kCopy, before);
    }
    UCUDNN_RETURN_IF_ERROR(ComputeStep(step, waiting));
    if (options_.synchronous) {
      timeline().Sync(kCompute, timeline().Last(kCopy));
    }
    draft_.ReturnWorkspace(workspace_);
    for (const std::size_t block : offloads_[i]) {
      // Of vDNNExt after both the offload and the computation.
      const bool copied = !round_.IsInput(block);
      draft_.Free(block, options_.synchronous || !copied ? kCompute : kCopy);
    }
    draft_.FreeDead(step.end);
    return {};
  }

  // Figure 6: the step whose input is fetched during backward step `i`.
  std::optional<std::size_t> FindPrefetch(std::size_t i) {
    std::size_t j = first_backward_;
    while (j > 0 && steps_[j - 1].layer != steps_[i].layer) --j;
    // steps_[j - 1] is the layer's own forward step.
    for (j = j > 0 ? j - 1 : 0; j-- > 0;) {
      const bool away = std::ranges::any_of(
          offloads_[j],
          [&](std::size_t block) { return !timeline().OnDevice(block); });
      if (away && !fetched_[j]) {
        fetched_[j] = true;
        return j;
      }
      if (IsConvolution(graph_.layers[steps_[j].layer])) return std::nullopt;
    }
    return std::nullopt;
  }

  Status Fetch(std::size_t block, const Timeline::Events& before) {
    if (timeline().OnDevice(block)) return {};
    if (!draft_.Alloc(block, kCompute)) {
      return draft_.NoRoomFor(graph_.blocks[block].name);
    }
    timeline().Prefetch(block, kCopy, before);
    return {};
  }

  Status Backward(std::size_t i) {
    const Step& step = steps_[i];
    const Timeline::Events before = timeline().Last(kCompute);
    const std::optional<std::size_t> p = FindPrefetch(i);
    // What the step itself lacks comes first: it waits for it.
    for (const std::size_t block : step.inputs) {
      UCUDNN_RETURN_IF_ERROR(Fetch(block, before));
    }
    if (p) {
      for (const std::size_t block : offloads_[*p]) {
        UCUDNN_RETURN_IF_ERROR(Fetch(block, before));
      }
    }
    UCUDNN_RETURN_IF_ERROR(AllocOutputs(step, false));
    UCUDNN_RETURN_IF_ERROR(ComputeStep(step, false));
    if (options_.synchronous) {
      timeline().Sync(kCompute, timeline().Last(kCopy));
    }
    draft_.ReturnWorkspace(workspace_);
    draft_.FreeDead(step.end);
    return {};
  }

  const RoundModel& round_;
  const TrainingGraph& graph_;
  const VdnnOptions options_;
  RoundDraft draft_;
  std::vector<Step> steps_;
  std::size_t first_backward_ = 0;
  std::vector<std::vector<std::size_t>> offloads_;  // blocks, by forward step
  std::vector<bool> fetched_;
  MemoryRange workspace_;
};

std::string NameOf(const VdnnOptions& options) {
  std::string name = options.offload == Offload::kNone   ? "none"
                     : options.offload == Offload::kConv ? "conv"
                                                         : "all";
  name += options.algorithms == Algorithms::kLeastMemory ? "(m)"
          : options.algorithms == Algorithms::kFastest   ? "(p)"
                                                         : "(greedy)";
  return name;
}

}  // namespace

Result<MemoryPlan> PlanVdnn(const TrainingGraph& graph,
                            const MemoryRequest& request,
                            const VdnnOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(
      const Rounds rounds,
      ModelRounds(graph, request.sub_batch.value_or(graph.batch)));
  const bool counts = request.allocator == MemoryAllocator::kStatic;
  MemoryPlan plan = NewPlan(rounds, request, counts ? kPlanAlignment : kUnit);
  plan.choice = NameOf(options);
  const std::vector<ResidentBlock> residents = plan.resident;
  const auto fit = counts ? MemoryPool::Fit::kCount : MemoryPool::Fit::kBest;
  return PlanEachRound(
      rounds, request, std::move(plan), [&](const RoundModel& round) {
        return VdnnRound(round, residents, request.budget, fit, options).Plan();
      });
}

Result<MemoryPlan> PlanVdnnDynamic(const TrainingGraph& graph,
                                   const MemoryRequest& request,
                                   bool synchronous) {
  const auto plan = [&](Offload offload, Algorithms algorithms) {
    return PlanVdnn(graph, request, {offload, algorithms, synchronous});
  };
  // The first pass: whether the network can be trained at all.
  UCUDNN_ASSIGN_OR_RETURN(MemoryPlan least,
                          plan(Offload::kAll, Algorithms::kLeastMemory));
  constexpr std::pair<Offload, Algorithms> kPasses[] = {
      {Offload::kNone, Algorithms::kFastest},
      {Offload::kConv, Algorithms::kFastest},
      {Offload::kAll, Algorithms::kFastest},
      {Offload::kConv, Algorithms::kGreedy},
      {Offload::kAll, Algorithms::kGreedy},
      {Offload::kConv, Algorithms::kLeastMemory}};
  for (const auto& [offload, algorithms] : kPasses) {
    Result<MemoryPlan> pass = plan(offload, algorithms);
    if (pass || pass.error().code != Code::kFailedPrecondition) return pass;
  }
  return least;
}

Result<MemoryPlan> PlanBaseline(const TrainingGraph& graph,
                                const MemoryRequest& request) {
  return PlanVdnn(graph, request, {Offload::kNone, Algorithms::kFastest, true});
}

Bytes NetworkWideBytes(const TrainingGraph& graph) {
  Bytes sum;
  Bytes gradient;
  for (const MemoryBlock& block : graph.blocks) {
    const Bytes size = block.SizeAt(graph.batch);
    if (block.kind == BlockKind::kGradient) {
      gradient = std::max(gradient, size);
    } else {
      sum += size;
    }
  }
  return sum + gradient * 2;
}

}  // namespace ucudnn
