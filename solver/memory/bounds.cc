#include "solver/memory/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "solver/micro_batch/wr.h"

namespace ucudnn {
namespace {

// Of times in nanoseconds.
constexpr double kNever = std::numeric_limits<double>::infinity();

bool Stays(const MemoryBlock& block, bool accumulates) {
  return block.persistent ||
         (accumulates && block.kind == BlockKind::kWeightGradient);
}

Bytes Staying(const TrainingGraph& graph, bool accumulates) {
  Bytes sum;
  for (const MemoryBlock& block : graph.blocks) {
    if (Stays(block, accumulates)) sum += block.bytes;
  }
  return sum;
}

std::vector<std::size_t> BlocksOf(const Task& task) {
  std::vector<std::size_t> blocks = task.reads;
  blocks.insert(blocks.end(), task.writes.begin(), task.writes.end());
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

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

// The least time of a task on `batch` images with so much room for workspace,
// over all divisions; kNever if there is none.
double LeastTime(const TrainingGraph& graph, const Task& task, BatchSize batch,
                 Bytes room) {
  if (room < Bytes(0)) return kNever;
  if (task.work.conv && !task.work.measured.empty()) {
    const Result<WrCurve> curve =
        SolveWrCurve(task.work.measured, batch, room, BatchPolicy::kAll);
    const std::optional<Nanoseconds> time =
        curve ? curve->LowerBoundAt(batch) : std::nullopt;
    return time ? static_cast<double>(time->count()) : kNever;
  }
  if (task.work.conv && !task.work.fixed) {
    // Linear in the batch; an algorithm can be had if it fits at one image.
    // Each part is rounded, by half a nanosecond at most.
    double speedup = 1;
    for (const ModelledAlgorithm& algorithm : graph.device.algorithms) {
      const std::optional<Bytes> workspace =
          ModelledWorkspace(algorithm.name, *task.work.conv, BatchSize(1));
      if (workspace && *workspace <= room) {
        speedup = std::max(speedup, algorithm.speedup);
      }
    }
    const auto images = static_cast<double>(batch.count());
    const double time =
        (task.work.operations + task.work.operations_per_image * images) /
        graph.device.ArithmeticRate(graph.precision) / speedup * 1e3;
    return std::max(0.0, time - images);
  }
  const std::vector<TaskCost> costs = CostsAt(graph, task, batch);
  return costs.empty() ? kNever
                       : static_cast<double>(costs.back().time.count());
}

// The same whatever the rounds: what all their parts take together.
double LeastTimeInRounds(const TrainingGraph& graph, const Task& task,
                         Bytes room) {
  if (task.work.conv || task.work.fixed || graph.batch == BatchSize(1) ||
      task.kind == TaskKind::kUpdate) {
    return LeastTime(graph, task, graph.batch, std::max(room, Bytes(0)));
  }
  // Modelled times grow no faster than the batch, but for rounding; of measured
  // ones nothing is known.
  if (!task.work.measured.empty()) return 0;
  return std::max(0.0, LeastTime(graph, task, graph.batch, Bytes(0)) -
                           static_cast<double>(graph.batch.count()));
}

// One round's structure, for bounds at any batch.
class RoundBound {
 public:
  RoundBound(const TrainingGraph& graph, bool accumulates, bool updates)
      : graph_(graph),
        fixed_(static_cast<double>(Staying(graph, accumulates).count())) {
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      const TaskKind kind = graph.tasks[i].kind;
      if (kind == TaskKind::kHostUpdate) continue;
      if (kind == TaskKind::kUpdate && !updates) continue;
      const std::size_t place = tasks_.size();
      tasks_.push_back(i);
      own_.emplace_back();
      for (const std::size_t block : BlocksOf(graph.tasks[i])) {
        if (Stays(graph.blocks[block], accumulates)) continue;
        own_.back().push_back(block);
        const auto [use, first] =
            uses_.try_emplace(block, std::pair(place, place));
        if (!first) use->second.second = place;
      }
    }
  }

  const std::vector<std::size_t>& tasks() const { return tasks_; }

  // Bytes of task `place` besides what stays.
  double Need(std::size_t place, BatchSize batch) const {
    double need = 0;
    for (const std::size_t block : own_[place]) need += Size(block, batch);
    return need;
  }
  double fixed() const { return fixed_; }

  // The bound, given each task's least time.
  double Bound(BatchSize batch, Bytes budget,
               const std::vector<double>& times) const {
    const std::size_t n = tasks_.size();
    std::vector<double> live(n + 1);    // changes of what is live
    std::vector<double> inputs(n + 1);  // of it inputs
    std::vector<double> out(n);         // may leave once the task is done
    std::vector<double> back(n);        // the same backwards
    for (const auto& [block, use] : uses_) {
      const double size = Size(block, batch);
      const bool input = graph_.blocks[block].kind == BlockKind::kInput;
      live[input ? 0 : use.first] += size;
      live[use.second + 1] -= size;
      if (input) {
        inputs[0] += size;
        inputs[use.second + 1] -= size;
      } else {
        out[use.first] += size;
      }
      back[use.second] += size;
    }
    const auto room = static_cast<double>(budget.count());
    std::vector<double> excess(n);
    std::vector<double> must_leave(n);
    double now = 0;
    double now_inputs = 0;
    for (std::size_t k = 0; k < n; ++k) {
      now += live[k];
      now_inputs += inputs[k];
      double own_inputs = 0;
      for (const std::size_t block : own_[k]) {
        if (graph_.blocks[block].kind == BlockKind::kInput) {
          own_inputs += Size(block, batch);
        }
      }
      if (fixed_ + Need(k, batch) > room || times[k] == kNever) return kNever;
      excess[k] = std::max(0.0, now + fixed_ - room);
      must_leave[k] = std::max(0.0, excess[k] - (now_inputs - own_inputs));
    }
    // A transfer's time is rounded, by half a nanosecond at most.
    const double slack = static_cast<double>(uses_.size());
    const std::vector<double> reach =
        Sweep(times, must_leave, out, graph_.device.d2h_rate / 1e3);
    const auto reversed = [](std::vector<double> v) {
      std::reverse(v.begin(), v.end());
      return v;
    };
    const std::vector<double> leave =
        reversed(Sweep(reversed(times), reversed(excess), reversed(back),
                       graph_.device.h2d_rate / 1e3));
    double sum = 0;
    for (const double time : times) sum += time;
    double bound = 0;
    for (std::size_t k = 0; k < n; ++k) {
      bound = std::max(bound, reach[k] + times[k] + leave[k]);
    }
    return std::max(sum, bound - slack);
  }

 private:
  double Size(std::size_t block, BatchSize batch) const {
    return static_cast<double>(graph_.blocks[block].SizeAt(batch).count());
  }

  // When each task starts if demand[j] bytes must have moved before task j, and
  // released[j] more may move once it is done. `rate`: bytes a nanosecond.
  static std::vector<double> Sweep(const std::vector<double>& times,
                                   const std::vector<double>& demand,
                                   const std::vector<double>& released,
                                   double rate) {
    std::vector<double> starts;
    double now = 0;
    double moved = 0;
    double waiting = 0;
    for (std::size_t j = 0; j < times.size(); ++j) {
      if (demand[j] > moved) {
        // What cannot move yet at all is no matter of time.
        const double missing = std::min(waiting, demand[j] - moved);
        now += missing / rate;
        moved += missing;
        waiting -= missing;
      }
      starts.push_back(now);
      const double meanwhile = std::min(waiting, times[j] * rate);
      moved += meanwhile;
      waiting += released[j] - meanwhile;
      now += times[j];
    }
    return starts;
  }

  const TrainingGraph& graph_;
  const double fixed_;
  std::vector<std::size_t> tasks_;             // of the graph
  std::vector<std::vector<std::size_t>> own_;  // blocks that do not stay
  // First and last use of each such block, by place of the task.
  std::map<std::size_t, std::pair<std::size_t, std::size_t>> uses_;
};

// The least times of a task for every batch, with so much room.
class TimesOverBatches {
 public:
  TimesOverBatches(const TrainingGraph& graph, Bytes room)
      : graph_(graph), room_(room) {
    for (const Task& task : graph.tasks) {
      curves_.emplace_back();
      if (!task.work.conv || task.work.measured.empty()) continue;
      Result<WrCurve> curve = SolveWrCurve(task.work.measured, graph.batch,
                                           room, BatchPolicy::kAll);
      if (curve) curves_.back() = *std::move(curve);
    }
  }

  double At(std::size_t task, BatchSize batch) const {
    if (curves_[task]) {
      const auto time = curves_[task]->LowerBoundAt(batch);
      return time ? static_cast<double>(time->count()) : kNever;
    }
    return LeastTime(graph_, graph_.tasks[task], batch, room_);
  }

 private:
  const TrainingGraph& graph_;
  const Bytes room_;
  std::vector<std::optional<WrCurve>> curves_;  // by task
};

double BoundOneRound(const TrainingGraph& graph, Bytes budget, bool updates) {
  const RoundBound round(graph, false, updates);
  std::vector<double> times;
  for (std::size_t k = 0; k < round.tasks().size(); ++k) {
    const double room = static_cast<double>(budget.count()) - round.fixed() -
                        round.Need(k, graph.batch);
    times.push_back(
        room < 0 ? kNever
                 : LeastTime(graph, graph.tasks[round.tasks()[k]], graph.batch,
                             Bytes(static_cast<std::int64_t>(room))));
  }
  return round.Bound(graph.batch, budget, times);
}

// The least over all sub-batches; kNever if none fits. Stops early once one is
// no longer than `enough`.
double BoundRounds(const TrainingGraph& graph, Bytes budget, bool updates,
                   double enough) {
  double least = BoundOneRound(graph, budget, updates);
  const Bytes room = budget - Staying(graph, true);
  if (graph.batch == BatchSize(1) || room < Bytes(0) || least <= enough) {
    return least;
  }
  const RoundBound earlier(graph, true, false);
  const RoundBound last(graph, true, updates);
  const TimesOverBatches times(graph, room);
  const auto bound = [&](const RoundBound& round, BatchSize batch) {
    std::vector<double> of_tasks;
    for (const std::size_t task : round.tasks()) {
      of_tasks.push_back(times.At(task, batch));
    }
    return round.Bound(batch, budget, of_tasks);
  };
  for (std::int64_t b = graph.batch.count() - 1; b > 0 && least > enough; --b) {
    const std::int64_t rounds = (graph.batch.count() + b - 1) / b;
    const std::int64_t rest = graph.batch.count() - (rounds - 1) * b;
    const double of_last = bound(last, BatchSize(rest));
    if (of_last >= least) continue;
    least = std::min(
        least, static_cast<double>(rounds - 1) * bound(earlier, BatchSize(b)) +
                   of_last);
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

std::optional<Nanoseconds> LowerBoundOneRound(const TrainingGraph& graph,
                                              Bytes budget) {
  const double bound = BoundOneRound(graph, budget, true);
  if (bound == kNever) return std::nullopt;
  return Rounded(bound);
}

Nanoseconds LowerBoundTime(const TrainingGraph& graph, Bytes budget,
                           const PlanFreedom& freedom) {
  const Bytes room =
      freedom.offloads_weights ? budget : budget - Staying(graph, false);
  double simple = 0;
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kHostUpdate) continue;
    const double time = LeastTimeInRounds(graph, task, room);
    if (time != kNever) simple += time;
  }
  if (freedom.offloads_weights || freedom.recomputes ||
      freedom.order == PlanFreedom::Order::kAny) {
    return Rounded(simple);
  }
  const double rounds = BoundRounds(
      graph, budget, freedom.order == PlanFreedom::Order::kProgram, simple);
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

void SetBounds(const TrainingGraph& graph, MemoryPlan* plan) {
  using Order = PlanFreedom::Order;
  PlanFreedom freedom;
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
      if (++runs[event.task] > 1) freedom.recomputes = true;
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
