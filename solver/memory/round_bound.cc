#include "solver/memory/round_bound.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "solver/memory/least_time.h"

namespace ucudnn {
namespace {

// Whole blocks are searched for at so many tasks, if they are few, in so many
// nodes each.
constexpr std::size_t kWholeTasks = 8;
constexpr std::size_t kMostBlocks = 64;
constexpr std::size_t kWholeNodes = 200;

template <typename T>
std::vector<T> Reversed(std::vector<T> v) {
  std::reverse(v.begin(), v.end());
  return v;
}

// Bytes that have moved before each task if nothing waits for them.
std::vector<double> Moved(const std::vector<double>& times,
                          const std::vector<double>& released, double rate) {
  std::vector<double> result;
  double moved = 0;
  double waiting = 0;
  for (std::size_t j = 0; j < times.size(); ++j) {
    result.push_back(moved);
    const double meanwhile = std::min(waiting, times[j] * rate);
    moved += meanwhile;
    waiting += released[j] - meanwhile;
  }
  return result;
}

// By place: what those before it take.
std::vector<double> SumsBefore(const std::vector<double>& times) {
  std::vector<double> sums;
  double sum = 0;
  for (const double time : times) {
    sums.push_back(sum);
    sum += time;
  }
  return sums;
}

// A link before a task: bytes that have moved and that wait, and the time.
struct LinkState {
  double now = 0;
  double moved = 0;
  double waiting = 0;

  // How long the task waits until so many bytes have moved. There are so many,
  // as long as the task fits beside what it uses.
  double DelayFor(double demand, double rate) const {
    return std::max(0.0, demand - moved) / rate;
  }

  void Pass(double time, double rate) {
    const double meanwhile = std::min(waiting, time * rate);
    now += time;
    moved += meanwhile;
    waiting -= meanwhile;
  }
};

// The states before all tasks, none of which can be earlier, if demand[j] bytes
// and those of its workspace must have moved before task j starts, and
// released[j] more may move once it is done. A task is run in the way in which
// it ends first: whatever could move meanwhile in another way moves then, too.
// `rate`: bytes a nanosecond.
std::vector<LinkState> Sweep(const RoundBound::Costs& costs,
                             const std::vector<double>& demand,
                             const std::vector<double>& released, double rate) {
  std::vector<LinkState> states;
  LinkState state;
  for (std::size_t j = 0; j < costs.size(); ++j) {
    states.push_back(state);
    double least = kNever;
    for (const LeastCost& cost : costs[j]) {
      least = std::min(
          least, state.DelayFor(demand[j] + cost.workspace, rate) + cost.time);
    }
    state.Pass(least, rate);
    state.waiting += released[j];
  }
  return states;
}

}  // namespace

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

RoundBound::RoundBound(const TrainingGraph& graph, bool accumulates,
                       Updates updates, const PlanFreedom& freedom)
    : graph_(graph),
      recomputes_(freedom.recomputes),
      fixed_(freedom.offloads_weights
                 ? 0.0
                 : static_cast<double>(Staying(graph, accumulates).count())) {
  for (const MemoryBlock& block : graph.blocks) {
    const bool stays = Stays(block, accumulates);
    stays_.push_back(stays && !freedom.offloads_weights);
    host_has_.push_back(stays || block.kind == BlockKind::kInput);
  }
  // By place: how many tasks come before it, without updates.
  std::vector<std::size_t> steps = {0};
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const TaskKind kind = graph.tasks[i].kind;
    if (kind == TaskKind::kHostUpdate) continue;
    if (kind == TaskKind::kUpdate && updates != Updates::kInOrder) {
      if (updates == Updates::kAnywhere) anywhere_.push_back(i);
      continue;
    }
    const std::size_t place = tasks_.size();
    tasks_.push_back(i);
    own_.emplace_back();
    for (const std::size_t block : BlocksOf(graph.tasks[i])) {
      if (stays_[block]) continue;
      own_.back().push_back(block);
      const auto [found, first] =
          uses_.try_emplace(block, Uses{place, place, {}, std::nullopt});
      Uses& uses = found->second;
      std::size_t gap = uses.last + 1;  // where the gap before this use begins
      if (first) gap = host_has_[block] ? 0 : place;
      if (steps[place] > steps[gap]) uses.returns = place;
      uses.last = place;
    }
    for (const std::size_t block : graph.tasks[i].reads) {
      if (!stays_[block]) uses_.at(block).reads.push_back(place);
    }
    steps.push_back(steps.back() + (kind == TaskKind::kUpdate ? 0 : 1));
  }
  FindRecomputable();
}

double RoundBound::Need(std::size_t place, BatchSize batch) const {
  double need = 0;
  for (const std::size_t block : own_[place]) need += Size(block, batch);
  return need;
}

double RoundBound::Bound(BatchSize batch, Bytes budget, Costs costs) const {
  double sum = 0;
  for (std::size_t k = 0; k < costs.size(); ++k) {
    const double room =
        static_cast<double>(budget.count()) - fixed_ - Need(k, batch);
    while (!costs[k].empty() && costs[k].back().workspace > room) {
      costs[k].pop_back();
    }
    if (room < 0 || costs[k].empty()) return kNever;
    sum += costs[k].back().time;
  }
  const Moves moves = MovesOf(batch, budget);
  const double bound = recomputes_
                           ? sum + WithRecomputation(batch, costs, moves)
                           : WithMoves(batch, costs, moves);
  // A transfer's time is rounded, by half a nanosecond at most.
  const double slack = static_cast<double>(uses_.size());
  for (const std::size_t task : anywhere_) {
    sum += LeastTime(graph_, graph_.tasks[task], batch, Bytes(0), false);
  }
  return std::max(sum, bound - slack);
}

RoundBound::Moves RoundBound::MovesOf(BatchSize batch, Bytes budget) const {
  const std::size_t n = tasks_.size();
  constexpr double kNoMatter = -std::numeric_limits<double>::infinity();
  Moves moves{std::vector(n, kNoMatter), std::vector<double>(n),
              std::vector<double>(n), std::vector<double>(n)};
  std::vector<double> live(n + 1);    // changes of what is live
  std::vector<double> inputs(n + 1);  // of it inputs
  for (const auto& [block, uses] : uses_) {
    const double size = Size(block, batch);
    const bool input = host_has_[block];
    live[input ? 0 : uses.first] += size;
    live[uses.last + 1] -= size;
    if (input) {
      inputs[0] += size;
      inputs[uses.last + 1] -= size;
    }
    if (!uses.returns) continue;
    if (!input) moves.out[uses.first] += size;
    moves.back[*uses.returns] += size;
  }
  double now = 0;
  double now_inputs = 0;
  for (std::size_t k = 0; k < n; ++k) {
    now += live[k];
    now_inputs += inputs[k];
    // Updates need less room than the tasks around them.
    if (graph_.tasks[tasks_[k]].kind == TaskKind::kUpdate) continue;
    double own_inputs = 0;
    for (const std::size_t block : own_[k]) {
      if (host_has_[block]) own_inputs += Size(block, batch);
    }
    moves.excess[k] = now + fixed_ - static_cast<double>(budget.count());
    moves.dropped[k] = now_inputs - own_inputs;
  }
  return moves;
}

// The largest time over all tasks of reaching it, of the task, and of what is
// left after it. What its workspace takes counts on both sides.
double RoundBound::WithMoves(BatchSize batch, const Costs& costs,
                             const Moves& moves) const {
  const double out_rate = graph_.device.d2h_rate / 1e3;
  const double in_rate = graph_.device.h2d_rate / 1e3;
  std::vector<double> must_leave;
  for (std::size_t k = 0; k < costs.size(); ++k) {
    must_leave.push_back(moves.excess[k] - moves.dropped[k]);
  }
  const std::vector<LinkState> before =
      Sweep(costs, must_leave, moves.out, out_rate);
  const std::vector<LinkState> after = Reversed(Sweep(
      Reversed(costs), Reversed(moves.excess), Reversed(moves.back), in_rate));
  Rooms rooms;
  rooms.at = [&](std::size_t k) {
    RoomProblem problem;
    for (const LeastCost& cost : costs[k]) {
      problem.ways.push_back({before[k].now + cost.time + after[k].now,
                              moves.excess[k] + cost.workspace});
    }
    problem.out = {out_rate, before[k].moved};
    problem.in = {in_rate, after[k].moved};
    problem.dropped = moves.dropped[k];
    return problem;
  };
  for (const LinkState& state : before) rooms.before.push_back(state.now);
  for (const LinkState& state : after) rooms.after.push_back(state.now);
  return LargestDelay(batch, rooms);
}

void RoundBound::FindRecomputable() {
  if (!recomputes_) return;
  std::map<std::size_t, std::vector<std::size_t>> writers;
  std::set<std::size_t> spoilt;
  for (std::size_t place = 0; place < tasks_.size(); ++place) {
    const Task& task = graph_.tasks[tasks_[place]];
    for (const std::size_t block : task.writes) {
      if (task.kind == TaskKind::kForward && task.recomputable) {
        writers[block].push_back(place);
      } else {
        spoilt.insert(block);
      }
    }
  }
  for (auto& [block, places] : writers) {
    if (spoilt.count(block) > 0 || stays_[block] || host_has_[block]) continue;
    recomputable_.push_back({block, std::move(places), {}});
  }
  FindSources();
}

void RoundBound::FindSources() {
  std::map<std::size_t, const Recomputable*> by_block;
  for (const Recomputable& again : recomputable_) {
    by_block[again.block] = &again;
  }
  std::map<std::size_t, double> needed;  // by how many
  for (Recomputable& again : recomputable_) {
    std::map<std::size_t, std::size_t> read;  // with the first place
    for (const std::size_t place : again.writers) {
      const Task& task = graph_.tasks[tasks_[place]];
      for (const std::size_t block : task.reads) {
        if (block != again.block) read.try_emplace(block, place);
      }
      if (!task.again) continue;
      for (const std::size_t block : task.again->reads) {
        read.try_emplace(block, place);
      }
    }
    for (const auto& [block, reader] : read) {
      const auto found = by_block.find(block);
      if (found == by_block.end()) continue;
      Source source{block, found->second->writers, 1};
      std::erase_if(source.writers,
                    [&, at = reader](std::size_t place) { return place > at; });
      again.sources.push_back(std::move(source));
      Uses& uses = uses_.at(block);
      again.sources_end = std::max(again.sources_end, uses.last + 1);
      // It may be away until this block is computed again.
      const std::size_t last = uses_.at(again.block).last;
      uses.returns = std::max(uses.returns.value_or(last), last);
      ++needed[block];
    }
  }
  for (Recomputable& again : recomputable_) {
    for (Source& source : again.sources) source.share /= needed[source.block];
  }
}

double RoundBound::TimeOf(std::size_t block,
                          const std::vector<std::size_t>& places,
                          BatchSize batch,
                          const std::vector<double>& times) const {
  const double size = Size(block, batch);
  double time = 0;
  for (const std::size_t place : places) {
    double written = 0;
    for (const std::size_t other : graph_.tasks[tasks_[place]].writes) {
      written += Size(other, batch);
    }
    time += times[place] * size / written;
  }
  return time;
}

// Each source is computed again too, or was kept, which takes room itself.
// Those are kept whose time for so much room is most.
double RoundBound::TimeWithSources(const Recomputable& again, double time,
                                   BatchSize batch,
                                   const std::vector<double>& times) const {
  struct Cost {
    double time;
    double size;
  };
  std::vector<Cost> costs;
  for (const Source& source : again.sources) {
    const double size = Size(source.block, batch);
    if (size == 0) continue;
    const Cost& cost = costs.emplace_back(
        Cost{source.share * TimeOf(source.block, source.writers, batch, times),
             source.share * size});
    time += cost.time;
  }
  std::sort(costs.begin(), costs.end(), [](const Cost& a, const Cost& b) {
    return a.time * b.size > b.time * a.size;
  });
  double size = Size(again.block, batch);
  double least = time / size;
  for (const Cost& cost : costs) {
    time -= cost.time;
    size -= cost.size;
    if (size <= 0) break;
    least = std::min(least, time / size);
  }
  return least;
}

std::vector<RoundBound::Item> RoundBound::ItemsOf(
    BatchSize batch, const std::vector<double>& times) const {
  std::vector<Item> items;
  const auto add = [&](const Item& item) {
    if (item.first < item.end) items.push_back(item);
  };
  for (const Recomputable& again : recomputable_) {
    const double size = Size(again.block, batch);
    if (size == 0) continue;
    const std::size_t last = uses_.at(again.block).last;
    // Between its writers only those before have run.
    std::vector<std::size_t> writers;
    for (std::size_t i = 0; i + 1 < again.writers.size(); ++i) {
      writers.push_back(again.writers[i]);
      add({TimeOf(again.block, writers, batch, times) / size, again.block,
           again.writers[i] + 1, again.writers[i + 1], false});
    }
    const std::size_t written = again.writers.back() + 1;
    const double time = TimeOf(again.block, again.writers, batch, times);
    const std::size_t later =
        std::clamp(again.sources_end, written, std::max(written, last));
    add({time / size, again.block, written, later, false});
    add({TimeWithSources(again, time, batch, times), again.block, later, last,
         !again.sources.empty()});
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return std::tie(a.per_byte, a.block) < std::tie(b.per_byte, b.block);
  });
  return items;
}

// What the round takes beyond its tasks. What the tasks that compute a block
// again read must be there again, too, even if nothing else needed it after k.
double RoundBound::WithRecomputation(BatchSize batch, const Costs& costs,
                                     const Moves& moves) const {
  const double out_rate = graph_.device.d2h_rate / 1e3;
  const double in_rate = graph_.device.h2d_rate / 1e3;
  std::vector<double> times;
  for (const auto& ways : costs) times.push_back(ways.back().time);
  const std::vector<double> left = Moved(times, moves.out, out_rate);
  const std::vector<double> returned =
      Reversed(Moved(Reversed(times), Reversed(moves.back), in_rate));
  Rooms rooms;
  rooms.at = [&](std::size_t k) {
    RoomProblem problem;
    for (const LeastCost& cost : costs[k]) {
      problem.ways.push_back(
          {cost.time - times[k], moves.excess[k] + cost.workspace});
    }
    problem.out = {out_rate, left[k]};
    problem.in = {in_rate, returned[k]};
    problem.dropped = moves.dropped[k];
    return problem;
  };
  rooms.before = SumsBefore(times);
  rooms.after = Reversed(SumsBefore(Reversed(times)));
  std::vector<double> again_times = times;
  for (std::size_t k = 0; k < tasks_.size(); ++k) {
    const std::optional<TaskAgain>& again = graph_.tasks[tasks_[k]].again;
    if (again) again_times[k] = static_cast<double>(again->time.count());
  }
  rooms.items = ItemsOf(batch, again_times);
  return LargestDelay(batch, rooms);
}

bool RoundBound::IsBeside(const Item& item, std::size_t place) const {
  if (place < item.first || place >= item.end) return false;
  const std::vector<std::size_t>& own = own_[place];
  return !std::binary_search(own.begin(), own.end(), item.block);
}

std::vector<RoomProblem::Block> RoundBound::BlocksBeside(
    std::size_t place, BatchSize batch, const Rooms& rooms) const {
  std::vector<const Item*> items(graph_.blocks.size());
  for (const Item& item : rooms.items) {
    if (IsBeside(item, place)) items[item.block] = &item;
  }
  const std::vector<std::size_t>& own = own_[place];
  std::vector<RoomProblem::Block> blocks;
  for (const auto& [block, uses] : uses_) {
    const bool input = host_has_[block];
    if ((place < uses.first && !input) || place > uses.last) continue;
    if (std::binary_search(own.begin(), own.end(), block)) continue;
    RoomProblem::Block beside{.bytes = Size(block, batch), .host_has = input};
    if (beside.bytes == 0) continue;
    if (!input) {
      beside.out_time = rooms.before[place] - rooms.before[uses.first + 1];
    }
    const auto read =
        std::upper_bound(uses.reads.begin(), uses.reads.end(), place);
    beside.in_time = rooms.after[place];
    if (read != uses.reads.end()) beside.in_time -= rooms.after[*read - 1];
    if (const Item* item = items[block]) {
      beside.per_byte = item->per_byte;
      beside.divisible = item->divisible;
      // One of its sources may leave in its place, and was there earlier.
      if (item->divisible) beside.out_time = rooms.before[place];
    }
    blocks.push_back(beside);
  }
  return blocks;
}

double RoundBound::LargestDelay(BatchSize batch, const Rooms& rooms) const {
  struct Delay {
    double least;
    std::size_t place;
    // The largest first, and of equal ones the last task.
    bool operator<(const Delay& other) const {
      return std::tie(least, place) > std::tie(other.least, other.place);
    }
  };
  std::vector<Delay> delays;
  for (std::size_t k = 0; k < tasks_.size(); ++k) {
    delays.push_back({LeastDelayOfMoves(rooms.at(k)), k});
  }
  std::sort(delays.begin(), delays.end());
  std::vector<RoomProblem::Block> again;
  for (const Item& item : rooms.items) {
    again.push_back(
        {.bytes = Size(item.block, batch), .per_byte = item.per_byte});
  }
  double most = 0;
  for (Delay& delay : delays) {
    if (delay.least <= most) break;
    if (!again.empty()) {
      delay.least = LeastDelayInParts(
          rooms.at(delay.place), again,
          [&](std::size_t i) { return !IsBeside(rooms.items[i], delay.place); },
          most);
    }
    most = std::max(most, delay.least);
  }
  std::sort(delays.begin(), delays.end());
  delays.resize(std::min(delays.size(), kWholeTasks));
  for (const Delay& delay : delays) {
    RoomProblem problem = rooms.at(delay.place);
    problem.blocks = BlocksBeside(delay.place, batch, rooms);
    if (problem.blocks.size() > kMostBlocks) continue;
    most = std::max(most, LeastDelayOfWholeBlocks(problem, kWholeNodes, most));
  }
  return most;
}

}  // namespace ucudnn
