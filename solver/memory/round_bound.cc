#include "solver/memory/round_bound.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "solver/memory/least_time.h"

namespace ucudnn {
namespace {

// At how many tasks whole blocks are searched, if at most so many blocks are
// live there, and in how many nodes. VGG-16's bounds rise by up to 2.3 %, and
// all searches of memory_bench take 265 s instead of 261 (Whole blocks in
// docs/results/h100-memory-2026-11-26.md, which also says why not to search
// among ResNet-50's 150 live blocks).
constexpr std::size_t kWholeTasks = 8;
constexpr std::size_t kMostBlocks = 64;
constexpr std::size_t kWholeNodes = 200;

template <typename T>
std::vector<T> Reversed(std::vector<T> v) {
  std::ranges::reverse(v);
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

  // How long the task waits until so many bytes have moved. There are as many
  // if the task fits with its own blocks alone.
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

// The state before each task, none of which can be earlier, if demand[j] bytes
// and those of its workspace must have moved before task j starts, and
// released[j] more may move once it is done. Each task runs in the way in which
// it ends first: what would move during a longer way can move after it as well.
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
  std::ranges::sort(blocks);
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

RoundBound::RoundBound(const TrainingGraph& graph, bool accumulates,
                       Updates updates, const MemoryFreedom& freedom)
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
  FindRecipes();
}

double RoundBound::Need(std::size_t place, BatchSize batch) const {
  double need = 0;
  for (const std::size_t block : own_[place]) need += Size(block, batch);
  return need;
}

double RoundBound::Bound(BatchSize batch, Bytes budget, Costs costs) const {
  double sum = 0;
  for (std::size_t place = 0; place < costs.size(); ++place) {
    const double room =
        static_cast<double>(budget.count()) - fixed_ - Need(place, batch);
    while (!costs[place].empty() && costs[place].back().workspace > room) {
      costs[place].pop_back();
    }
    if (room < 0 || costs[place].empty()) return kNever;
    sum += costs[place].back().time;
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
  for (std::size_t place = 0; place < n; ++place) {
    now += live[place];
    now_inputs += inputs[place];
    // Updates need less room than the tasks around them.
    if (graph_.tasks[tasks_[place]].kind == TaskKind::kUpdate) continue;
    double own_inputs = 0;
    for (const std::size_t block : own_[place]) {
      if (host_has_[block]) own_inputs += Size(block, batch);
    }
    moves.excess[place] = now + fixed_ - static_cast<double>(budget.count());
    moves.dropped[place] = now_inputs - own_inputs;
  }
  return moves;
}

// The maximum over all tasks of reach + t_w + leave (round_bound.h). Workspace
// lacks on both sides: before the task and after it.
double RoundBound::WithMoves(BatchSize batch, const Costs& costs,
                             const Moves& moves) const {
  const double out_rate = graph_.device.d2h_rate / 1e3;
  const double in_rate = graph_.device.h2d_rate / 1e3;
  std::vector<double> must_leave;
  for (std::size_t place = 0; place < costs.size(); ++place) {
    must_leave.push_back(moves.excess[place] - moves.dropped[place]);
  }
  const std::vector<LinkState> before =
      Sweep(costs, must_leave, moves.out, out_rate);
  const std::vector<LinkState> after = Reversed(Sweep(
      Reversed(costs), Reversed(moves.excess), Reversed(moves.back), in_rate));
  Rooms rooms;
  rooms.at = [&](std::size_t place) {
    RoomProblem problem;
    for (const LeastCost& cost : costs[place]) {
      problem.ways.push_back({before[place].now + cost.time + after[place].now,
                              moves.excess[place] + cost.workspace});
    }
    problem.out = {out_rate, before[place].moved};
    problem.in = {in_rate, after[place].moved};
    problem.dropped = moves.dropped[place];
    return problem;
  };
  for (const LinkState& state : before) rooms.before.push_back(state.now);
  for (const LinkState& state : after) rooms.after.push_back(state.now);
  return LargestDelay(batch, rooms);
}

void RoundBound::FindRecipes() {
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
    recipes_.push_back({block, std::move(places), {}});
  }
  FindSources();
}

void RoundBound::FindSources() {
  std::map<std::size_t, const Recipe*> by_block;
  for (const Recipe& recipe : recipes_) {
    by_block[recipe.block] = &recipe;
  }
  std::map<std::size_t, double> needed;  // by how many
  for (Recipe& recipe : recipes_) {
    std::map<std::size_t, std::size_t> read;  // with the first place
    for (const std::size_t place : recipe.writers) {
      const Task& task = graph_.tasks[tasks_[place]];
      for (const std::size_t block : task.reads) {
        if (block != recipe.block) read.try_emplace(block, place);
      }
      if (!task.recipe) continue;
      for (const std::size_t block : task.recipe->reads) {
        read.try_emplace(block, place);
      }
    }
    for (const auto& [block, reader] : read) {
      const auto found = by_block.find(block);
      if (found == by_block.end()) continue;
      Source source{block, found->second->writers, 1};
      std::erase_if(source.writers,
                    [&, at = reader](std::size_t place) { return place > at; });
      recipe.sources.push_back(std::move(source));
      Uses& uses = uses_.at(block);
      recipe.sources_end = std::max(recipe.sources_end, uses.last + 1);
      // It may be away until the block that it makes is used last.
      const std::size_t last = uses_.at(recipe.block).last;
      uses.returns = std::max(uses.returns.value_or(last), last);
      ++needed[block];
    }
  }
  for (Recipe& recipe : recipes_) {
    for (Source& source : recipe.sources) source.share /= needed[source.block];
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

// Each source is either computed again, too, which adds to the time, or was
// kept, which takes away from the room that the block makes. Those are kept
// that take the most time a byte, while that lowers the time a byte.
double RoundBound::TimeWithSources(const Recipe& recipe, double time,
                                   BatchSize batch,
                                   const std::vector<double>& times) const {
  struct Cost {
    double time;
    double size;
  };
  std::vector<Cost> costs;
  for (const Source& source : recipe.sources) {
    const double size = Size(source.block, batch);
    if (size == 0) continue;
    const Cost& cost = costs.emplace_back(
        Cost{source.share * TimeOf(source.block, source.writers, batch, times),
             source.share * size});
    time += cost.time;
  }
  std::ranges::sort(costs, [](const Cost& a, const Cost& b) {
    return a.time * b.size > b.time * a.size;
  });
  double size = Size(recipe.block, batch);
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
  for (const Recipe& recipe : recipes_) {
    const double size = Size(recipe.block, batch);
    if (size == 0) continue;
    const std::size_t last = uses_.at(recipe.block).last;
    // Between its writers only those before have run.
    std::vector<std::size_t> writers;
    for (std::size_t i = 0; i + 1 < recipe.writers.size(); ++i) {
      writers.push_back(recipe.writers[i]);
      add({TimeOf(recipe.block, writers, batch, times) / size, recipe.block,
           recipe.writers[i] + 1, recipe.writers[i + 1], false});
    }
    const std::size_t written = recipe.writers.back() + 1;
    const double time = TimeOf(recipe.block, recipe.writers, batch, times);
    const std::size_t later =
        std::clamp(recipe.sources_end, written, std::max(written, last));
    add({time / size, recipe.block, written, later, false});
    add({TimeWithSources(recipe, time, batch, times), recipe.block, later, last,
         !recipe.sources.empty()});
  }
  std::ranges::sort(items, {}, [](const Item& item) {
    return std::tuple(item.per_byte, item.block);
  });
  return items;
}

// What the round takes beyond the sum of its tasks. What a recipe reads must be
// there as well, even if no other task needs it any more.
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
  rooms.at = [&](std::size_t place) {
    RoomProblem problem;
    for (const LeastCost& cost : costs[place]) {
      problem.ways.push_back(
          {cost.time - times[place], moves.excess[place] + cost.workspace});
    }
    problem.out = {out_rate, left[place]};
    problem.in = {in_rate, returned[place]};
    problem.dropped = moves.dropped[place];
    return problem;
  };
  rooms.before = SumsBefore(times);
  rooms.after = Reversed(SumsBefore(Reversed(times)));
  std::vector<double> rerun_times = times;
  for (std::size_t place = 0; place < tasks_.size(); ++place) {
    const std::optional<TaskRecipe>& recipe =
        graph_.tasks[tasks_[place]].recipe;
    if (recipe) rerun_times[place] = static_cast<double>(recipe->time.count());
  }
  rooms.items = ItemsOf(batch, rerun_times);
  return LargestDelay(batch, rooms);
}

bool RoundBound::MakesRoom(const Item& item, std::size_t place) const {
  if (place < item.first || place >= item.end) return false;
  const std::vector<std::size_t>& own = own_[place];
  return !std::ranges::binary_search(own, item.block);
}

std::vector<RoomProblem::Block> RoundBound::OtherBlocks(
    std::size_t place, BatchSize batch, const Rooms& rooms) const {
  std::vector<const Item*> items(graph_.blocks.size());
  for (const Item& item : rooms.items) {
    if (MakesRoom(item, place)) items[item.block] = &item;
  }
  const std::vector<std::size_t>& own = own_[place];
  std::vector<RoomProblem::Block> blocks;
  for (const auto& [block, uses] : uses_) {
    const bool input = host_has_[block];
    if ((place < uses.first && !input) || place > uses.last) continue;
    if (std::ranges::binary_search(own, block)) continue;
    RoomProblem::Block other{.bytes = Size(block, batch), .host_has = input};
    if (other.bytes == 0) continue;
    if (!input) {
      other.out_time = rooms.before[place] - rooms.before[uses.first + 1];
    }
    const auto read = std::ranges::upper_bound(uses.reads, place);
    other.in_time = rooms.after[place];
    if (read != uses.reads.end()) other.in_time -= rooms.after[*read - 1];
    if (const Item* item = items[block]) {
      other.per_byte = item->per_byte;
      other.divisible = item->divisible;
      // A source, which was computed earlier, may leave in its place.
      if (item->divisible) other.out_time = rooms.before[place];
    }
    blocks.push_back(other);
  }
  return blocks;
}

double RoundBound::LargestDelay(BatchSize batch, const Rooms& rooms) const {
  struct Delay {
    double least;
    std::size_t place;
  };
  std::vector<Delay> delays;
  // The largest first, and of equal ones the last task.
  const auto sort = [&] {
    std::ranges::sort(delays, std::ranges::greater(), [](const Delay& delay) {
      return std::tuple(delay.least, delay.place);
    });
  };
  for (std::size_t place = 0; place < tasks_.size(); ++place) {
    delays.push_back({LeastDelayOfMoves(rooms.at(place)), place});
  }
  sort();
  std::vector<RoomProblem::Block> recomputable;
  for (const Item& item : rooms.items) {
    recomputable.push_back(
        {.bytes = Size(item.block, batch), .per_byte = item.per_byte});
  }
  double most = 0;
  for (Delay& delay : delays) {
    if (delay.least <= most) break;
    if (!recomputable.empty()) {
      delay.least = LeastDelayInParts(
          rooms.at(delay.place), recomputable,
          [&](std::size_t i) {
            return !MakesRoom(rooms.items[i], delay.place);
          },
          most);
    }
    most = std::max(most, delay.least);
  }
  sort();
  delays.resize(std::min(delays.size(), kWholeTasks));
  for (const Delay& delay : delays) {
    RoomProblem problem = rooms.at(delay.place);
    problem.blocks = OtherBlocks(delay.place, batch, rooms);
    if (problem.blocks.size() > kMostBlocks) continue;
    most = std::max(most, LeastDelayOfWholeBlocks(problem, kWholeNodes, most));
  }
  return most;
}

}  // namespace ucudnn
