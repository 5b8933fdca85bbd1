#include "solver/memory/vdnn.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "solver/memory/finish.h"
#include "solver/memory/placement.h"
#include "solver/memory/round_draft.h"
#include "solver/memory/round_model.h"
#include "solver/memory/steps.h"

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

class VdnnRound {
 public:
  VdnnRound(const RoundModel& round,
            const std::vector<ResidentBlock>& residents, MemoryPool pool,
            const VdnnOptions& options)
      : round_(round),
        graph_(*round.graph),
        options_(options),
        draft_(round, residents, std::move(pool)),
        steps_(StepsOf(round)) {
    ChooseOffloads();
  }

  // Absent if something did not fit; what() says what.
  std::optional<MemoryRound> Plan() {
    std::size_t i = 0;
    for (; i < steps_.size() && !steps_[i].backward; ++i) {
      if (!Forward(i)) return std::nullopt;
    }
    // All offloads end before the backward pass starts (4.3).
    timeline().Sync(kCompute, timeline().Last(kCopy));
    for (; i < steps_.size(); ++i) {
      if (!Backward(i)) return std::nullopt;
    }
    return timeline().Finish();
  }

  const std::string& what() const { return what_; }

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
        const auto later =
            std::lower_bound(uses.begin(), uses.end(), steps_[i].end);
        const bool last_reader =
            later == uses.end() || *later >= backward_begin;
        if (last_reader && later != uses.end()) offloads_[i].push_back(block);
      }
    }
  }

  bool Fail(std::string what) {
    what_ = std::move(what);
    return false;
  }

  bool NoRoomFor(const std::string& block) {
    return Fail(fmt::format("there is no room for {}", block));
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
  bool ComputeStep(const Step& step, bool waiting) {
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
        return NoRoomFor("the workspace of " + graph_.layers[step.layer].name);
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
    return true;
  }

  bool AllocOutputs(const Step& step, bool waiting) {
    for (std::size_t i = step.begin; i < step.end; ++i) {
      if (!draft_.AllocOutputs(round_.tasks[i], waiting)) {
        return NoRoomFor("what " + graph_.tasks[round_.tasks[i]].name +
                         " computes");
      }
    }
    return true;
  }

  bool Forward(std::size_t i) {
    const Step& step = steps_[i];
    const bool waiting = !options_.synchronous;
    if (!AllocOutputs(step, waiting)) return false;
    const Timeline::Events before = timeline().Last(kCompute);
    for (const std::size_t block : offloads_[i]) {
      if (!round_.IsInput(block)) timeline().Offload(block, kCopy, before);
    }
    if (!ComputeStep(step, waiting)) return false;
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
    return true;
  }

  // Figure 6: the step whose input is fetched during backward step `i`.
  std::optional<std::size_t> FindPrefetch(std::size_t i) {
    std::size_t j = first_backward_;
    while (j > 0 && steps_[j - 1].layer != steps_[i].layer) --j;
    // steps_[j - 1] is the layer's own forward step.
    for (j = j > 0 ? j - 1 : 0; j-- > 0;) {
      const bool away = std::any_of(
          offloads_[j].begin(), offloads_[j].end(),
          [&](std::size_t block) { return !timeline().OnDevice(block); });
      if (away && !fetched_[j]) {
        fetched_[j] = true;
        return j;
      }
      if (IsConvolution(graph_.layers[steps_[j].layer])) return std::nullopt;
    }
    return std::nullopt;
  }

  bool Fetch(std::size_t block, const Timeline::Events& before) {
    if (timeline().OnDevice(block)) return true;
    if (!draft_.Alloc(block, kCompute)) {
      return NoRoomFor(graph_.blocks[block].name);
    }
    timeline().Prefetch(block, kCopy, before);
    return true;
  }

  bool Backward(std::size_t i) {
    const Step& step = steps_[i];
    const Timeline::Events before = timeline().Last(kCompute);
    const std::optional<std::size_t> p = FindPrefetch(i);
    // What the step itself lacks comes first: it waits for it.
    for (const std::size_t block : step.inputs) {
      if (!Fetch(block, before)) return false;
    }
    if (p) {
      for (const std::size_t block : offloads_[*p]) {
        if (!Fetch(block, before)) return false;
      }
    }
    if (!AllocOutputs(step, false)) return false;
    if (!ComputeStep(step, false)) return false;
    if (options_.synchronous) {
      timeline().Sync(kCompute, timeline().Last(kCopy));
    }
    draft_.ReturnWorkspace(workspace_);
    draft_.FreeDead(step.end);
    return true;
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
  std::string what_;
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
  const auto plan_round = [&](const RoundModel& model) -> Result<MemoryRound> {
    const auto fit = counts ? MemoryPool::Fit::kCount : MemoryPool::Fit::kBest;
    VdnnRound round(model, residents, MemoryPool(request.budget, fit, kUnit),
                    options);
    std::optional<MemoryRound> planned = round.Plan();
    if (!planned) {
      return Fail(Code::kFailedPrecondition, "{} in the budget of {}",
                  round.what(), HumanBytes(request.budget));
    }
    return *std::move(planned);
  };
  return PlanEachRound(rounds, request, std::move(plan), plan_round);
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
