#include "solver/memory/bounds.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "solver/memory/least_time.h"
#include "solver/memory/round_bound.h"

namespace ucudnn {
namespace {

// The largest task's blocks: all of them, or those that do not stay anyway.
Bytes LargestTask(const TrainingGraph& graph, BatchSize batch, bool accumulates,
                  bool with_weights) {
  Bytes largest;
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kHostUpdate) continue;
    Bytes sum;
    for (const std::size_t i : BlocksOf(task)) {
      const MemoryBlock& block = graph.blocks[i];
      if (with_weights || !Stays(block, accumulates)) {
        sum += block.SizeAt(batch);
      }
    }
    largest = std::max(largest, sum);
  }
  return largest;
}

// What rounds take together whose times are on a line: on each of its segments
// the time for an image is least at one of its ends. Each round is rounded.
double LeastOnLine(const std::vector<TaskTimeAt>& line, BatchSize batch) {
  const auto images = static_cast<double>(batch.count());
  const auto rate = [](const TaskTimeAt& at) {
    return static_cast<double>(at.time.count()) /
           static_cast<double>(at.batch.count());
  };
  double least = rate({batch, TimeOnLine(line, batch)});
  for (const TaskTimeAt& at : line) {
    if (at.batch < batch) least = std::min(least, rate(at));
  }
  return std::max(0.0, least * images - images);
}

// The same whatever the rounds: what all their parts take together.
double LeastTimeInRounds(const TrainingGraph& graph, const Task& task,
                         Bytes room) {
  if (task.work.HasAlgorithms() || task.work.fixed ||
      graph.batch == BatchSize(1) || task.kind == TaskKind::kUpdate) {
    return LeastTime(graph, task, graph.batch, std::max(room, Bytes(0)), true);
  }
  if (!task.work.line.empty()) return LeastOnLine(task.work.line, graph.batch);
  // Modelled times grow no faster than the batch, but for rounding; of measured
  // ones nothing is known.
  if (!task.work.measured.empty()) return 0;
  return std::max(0.0, LeastTime(graph, task, graph.batch, Bytes(0), true) -
                           static_cast<double>(graph.batch.count()));
}

// The bounds of rounds of all sub-batches.
class SubBatchBounds {
 public:
  SubBatchBounds(const TrainingGraph& graph, Bytes budget,
                 const MemoryFreedom& freedom)
      : graph_(graph),
        budget_(budget),
        one_(graph, false, UpdatesOf(freedom), freedom),
        earlier_(graph, true, RoundBound::Updates::kNone, freedom),
        last_(graph, true, UpdatesOf(freedom), freedom),
        costs_(
            graph,
            freedom.offloads_weights ? budget : budget - Staying(graph, false),
            freedom.divides_estimates) {}

  // Times in nanoseconds; kNever if they do not fit.
  struct Times {
    double earlier = 0;
    double last = kNever;
    double all = kNever;
  };

  // Of one round of the whole mini-batch.
  Times Whole() const {
    const double bound = Of(one_, graph_.batch);
    return {0, bound, bound};
  }

  // Of rounds of fewer images.
  Times Parts(BatchSize batch) const {
    return Sum(batch, [&](const RoundBound& round, BatchSize images) {
      return Of(round, images);
    });
  }

  // The sum of the tasks alone, which is no more than the bound. Cheap.
  double WithoutDelays(BatchSize batch) const {
    const auto of = [&](const RoundBound& round, BatchSize images) {
      double sum = 0;
      for (const std::size_t task : round.tasks()) {
        sum += costs_.FastestAt(task, images);
      }
      return sum;
    };
    return batch == graph_.batch ? of(one_, batch) : Sum(batch, of).all;
  }

 private:
  static RoundBound::Updates UpdatesOf(const MemoryFreedom& freedom) {
    return freedom.order == MemoryFreedom::Order::kProgram
               ? RoundBound::Updates::kInOrder
               : RoundBound::Updates::kAnywhere;
  }

  template <typename RoundTime>
  Times Sum(BatchSize batch, const RoundTime& time_of) const {
    const std::int64_t count =
        (graph_.batch.count() + batch.count() - 1) / batch.count();
    Times times;
    times.last = time_of(
        last_, BatchSize(graph_.batch.count() - (count - 1) * batch.count()));
    times.earlier = time_of(earlier_, batch);
    times.all = static_cast<double>(count - 1) * times.earlier + times.last;
    return times;
  }

  double Of(const RoundBound& round, BatchSize batch) const {
    RoundBound::Costs costs;
    for (const std::size_t task : round.tasks()) {
      costs.push_back(costs_.At(task, batch));
    }
    return round.Bound(batch, budget_, std::move(costs));
  }

  const TrainingGraph& graph_;
  const Bytes budget_;
  const RoundBound one_;
  const RoundBound earlier_;
  const RoundBound last_;
  const LeastCosts costs_;
};

// The least over all sub-batches; kNever if none fits. Stops early once one is
// no longer than `enough`.
double BoundRounds(const TrainingGraph& graph, Bytes budget,
                   const MemoryFreedom& freedom, double enough) {
  const SubBatchBounds bounds(graph, budget, freedom);
  if (freedom.sub_batch && *freedom.sub_batch < graph.batch) {
    return bounds.Parts(*freedom.sub_batch).all;
  }
  double least = bounds.Whole().all;
  if (freedom.sub_batch) return least;
  for (std::int64_t b = graph.batch.count() - 1; b > 0 && least > enough; --b) {
    if (bounds.WithoutDelays(BatchSize(b)) >= least) continue;
    least = std::min(least, bounds.Parts(BatchSize(b)).all);
  }
  return least;
}

Nanoseconds Rounded(double time) {
  return Nanoseconds(static_cast<std::int64_t>(std::floor(time)));
}

}  // namespace

Bytes LowerBoundBytes(const TrainingGraph& graph, bool weights_may_leave) {
  const BatchSize one(1);
  if (weights_may_leave) return LargestTask(graph, one, true, true);
  const Bytes whole =
      Staying(graph, false) + LargestTask(graph, graph.batch, false, false);
  if (graph.batch == one) return whole;
  return std::min(whole,
                  Staying(graph, true) + LargestTask(graph, one, true, false));
}

std::vector<std::optional<SubBatchBound>> LowerBoundsOfSubBatches(
    const TrainingGraph& graph, Bytes budget, const MemoryFreedom& freedom,
    const std::vector<BatchSize>& sub_batches) {
  const SubBatchBounds bounds(graph, budget, freedom);
  std::vector<std::optional<SubBatchBound>> result;
  for (const BatchSize batch : sub_batches) {
    const auto times =
        batch == graph.batch ? bounds.Whole() : bounds.Parts(batch);
    result.emplace_back();
    if (times.all == kNever) continue;
    result.back() = SubBatchBound{Rounded(times.earlier), Rounded(times.last),
                                  Rounded(times.all)};
  }
  return result;
}

Nanoseconds LowerBoundTime(const TrainingGraph& graph, Bytes budget,
                           const MemoryFreedom& freedom) {
  const Bytes room =
      freedom.offloads_weights ? budget : budget - Staying(graph, false);
  double simple = 0;
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kHostUpdate) continue;
    const double time = LeastTimeInRounds(graph, task, room);
    if (time != kNever) simple += time;
  }
  if (freedom.order == MemoryFreedom::Order::kAny) return Rounded(simple);
  const double rounds = BoundRounds(graph, budget, freedom, simple);
  return Rounded(rounds == kNever ? simple : std::max(simple, rounds));
}

std::optional<Bytes> IdealBytes(const TrainingGraph& graph) {
  Bytes sum;
  Bytes workspace;
  for (const MemoryBlock& block : graph.blocks) {
    sum += block.SizeAt(graph.batch);
  }
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kHostUpdate) continue;
    const std::vector<TaskCost> costs = CostsAt(graph, task, graph.batch);
    if (costs.empty()) return std::nullopt;
    workspace = std::max(workspace, costs.back().workspace);
  }
  return sum + workspace;
}

std::optional<Nanoseconds> IdealTime(const TrainingGraph& graph) {
  Nanoseconds sum{0};
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kHostUpdate) continue;
    const std::vector<TaskCost> costs = CostsAt(graph, task, graph.batch);
    if (costs.empty()) return std::nullopt;
    sum += costs.back().time;
  }
  return sum;
}

void SetBounds(const TrainingGraph& graph, const MemoryRequest& request,
               MemoryPlan* plan) {
  using Order = MemoryFreedom::Order;
  MemoryFreedom freedom;
  freedom.sub_batch = request.sub_batch;
  std::vector<bool> resident(graph.blocks.size());
  for (const ResidentBlock& block : plan->resident) {
    resident[block.block] = true;
  }
  std::vector<bool> moved(graph.blocks.size());
  for (const MemoryRound& round : plan->rounds) {
    std::vector<int> runs(graph.tasks.size());
    std::size_t last = 0;  // task, and of those that are no updates
    std::size_t last_but_updates = 0;
    for (const MemoryEvent& event : round.events) {
      if (event.op == EventOp::kFree) moved[event.block] = true;
      if (event.op != EventOp::kCompute) continue;
      const TaskKind kind = graph.tasks[event.task].kind;
      if (kind == TaskKind::kHostUpdate) continue;
      if (++runs[event.task] > 1) {
        freedom.recomputes = true;
        continue;
      }
      if (event.task < last) {
        freedom.order = std::max(freedom.order, Order::kUpdatesAnywhere);
      }
      last = event.task;
      if (kind == TaskKind::kUpdate) continue;
      if (event.task < last_but_updates) freedom.order = Order::kAny;
      last_but_updates = event.task;
    }
  }
  for (std::size_t i = 0; i < graph.blocks.size(); ++i) {
    if (graph.blocks[i].persistent && (!resident[i] || moved[i])) {
      freedom.offloads_weights = true;
    }
    // Gradients that leave between the tasks that add to them.
    if (plan->rounds.size() > 1 &&
        graph.blocks[i].kind == BlockKind::kWeightGradient &&
        (!resident[i] || moved[i])) {
      freedom.offloads_weights = true;
    }
  }
  plan->ideal_time = IdealTime(graph);
  plan->ideal_bytes = IdealBytes(graph);
  plan->lower_bound = LowerBoundTime(graph, plan->budget, freedom);
  plan->lower_bound_bytes = LowerBoundBytes(graph, freedom.offloads_weights);
}

}  // namespace ucudnn
