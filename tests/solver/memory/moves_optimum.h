#ifndef UCUDNN_TESTS_SOLVER_MEMORY_MOVES_OPTIMUM_H_
#define UCUDNN_TESTS_SOLVER_MEMORY_MOVES_OPTIMUM_H_

// The least time of a tiny graph's iteration of one round, by exhaustion: in
// bytes without addresses, whole blocks leave and return at any time, nothing
// runs twice.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "base/training/graph.h"

namespace ucudnn::test {

// The A* algorithm over what has run, what lies where, and how long what runs
// now still takes; the tasks to come take their least times at least. For
// graphs of activations and gradients alone.
class MovesOptimum {
 public:
  MovesOptimum(const TrainingGraph& graph, Bytes budget)
      : graph_(graph), budget_(budget.count()) {
    for (const Task& task : graph.tasks) {
      uses_.push_back(Of(task.reads) | Of(task.writes));
    }
    rest_.assign(graph.tasks.size() + 1, 0);
    for (std::size_t i = graph.tasks.size(); i-- > 0;) {
      rest_[i] =
          rest_[i + 1] +
          CostsAt(graph, graph.tasks[i], graph.batch).back().time.count();
    }
  }

  // In nanoseconds; absent if nothing fits.
  std::optional<std::int64_t> Time() {
    Reach(0, {});
    while (!open_.empty()) {
      const auto [sum, state] = open_.top();
      open_.pop();
      const std::int64_t time = sum - RestOf(state);
      if (time > known_.at(state)) continue;
      if (state.next == graph_.tasks.size() && state.task_left == 0) {
        return time;
      }
      Expand(time, state);
    }
    return std::nullopt;
  }

 private:
  using Blocks = std::uint32_t;

  struct State {
    std::size_t next = 0;        // task
    std::int64_t task_left = 0;  // of the one before, if it still runs
    std::int64_t workspace = 0;  // its
    std::int64_t out_left = 0;   // of the transfer to the host
    std::size_t out = 0;         // its block
    std::int64_t in_left = 0;
    std::size_t in = 0;
    Blocks present = 0;  // allocated
    Blocks filled = 0;   // with their contents
    Blocks on_host = 0;

    auto Tie() const {
      return std::tie(next, task_left, workspace, out_left, out, in_left, in,
                      present, filled, on_host);
    }
    bool operator<(const State& other) const { return Tie() < other.Tie(); }
  };

  static Blocks One(std::size_t block) { return Blocks{1} << block; }
  static Blocks Of(const std::vector<std::size_t>& blocks) {
    Blocks set = 0;
    for (const std::size_t block : blocks) set |= One(block);
    return set;
  }

  std::int64_t BytesOf(Blocks set) const {
    std::int64_t sum = 0;
    for (std::size_t block = 0; block < graph_.blocks.size(); ++block) {
      if ((set & One(block)) != 0) sum += graph_.blocks[block].bytes.count();
    }
    return sum;
  }

  std::int64_t TransferTime(std::size_t block, double rate) const {
    return std::llround(
        static_cast<double>(graph_.blocks[block].bytes.count()) / rate * 1e3);
  }

  Blocks Running(const State& s) const {
    return s.task_left > 0 ? uses_[s.next - 1] : Blocks{0};
  }

  bool UsedFrom(std::size_t block, std::size_t task) const {
    return std::any_of(uses_.begin() + static_cast<std::ptrdiff_t>(task),
                       uses_.end(),
                       [&](Blocks uses) { return (uses & One(block)) != 0; });
  }

  void Expand(std::int64_t time, const State& s) {
    if (s.task_left == 0 && s.next < graph_.tasks.size()) StartTask(time, s);
    const Blocks written =
        s.task_left > 0 ? Of(graph_.tasks[s.next - 1].writes) : Blocks{0};
    for (std::size_t block = 0; block < graph_.blocks.size(); ++block) {
      const Blocks one = One(block);
      const bool leaving = s.out_left > 0 && s.out == block;
      const bool arriving = s.in_left > 0 && s.in == block;
      if ((s.present & one) != 0) {
        const bool needed = UsedFrom(block, s.next);
        // What nothing needs is released at once.
        if ((Running(s) & one) == 0 && !leaving && !arriving &&
            (!needed || (s.on_host & one) != 0)) {
          State after = s;
          after.present &= ~one;
          after.filled &= ~one;
          Reach(time, after);
          if (!needed) return;
        }
        if (s.out_left == 0 && needed && (s.filled & one) != 0 &&
            (written & one) == 0 && (s.on_host & one) == 0) {
          State after = s;
          after.out_left = TransferTime(block, graph_.device.d2h_rate);
          after.out = block;
          Reach(time, after);
        }
      } else if (s.in_left == 0 && (s.on_host & one) != 0 &&
                 BytesOf(s.present | one) + s.workspace <= budget_) {
        State after = s;
        after.present |= one;
        after.in_left = TransferTime(block, graph_.device.h2d_rate);
        after.in = block;
        Reach(time, after);
      }
    }
    Wait(time, s);
  }

  void StartTask(std::int64_t time, const State& s) {
    const Task& task = graph_.tasks[s.next];
    const Blocks reads = Of(task.reads);
    const Blocks writes = Of(task.writes);
    if ((s.filled & reads) != reads) return;
    if (s.out_left > 0 && (writes & One(s.out)) != 0) return;
    State after = s;
    ++after.next;
    after.present |= writes;
    after.on_host &= ~writes;
    for (const TaskCost& cost : CostsAt(graph_, task, graph_.batch)) {
      if (BytesOf(after.present) + cost.workspace.count() > budget_) break;
      after.task_left = cost.time.count();
      after.workspace = cost.workspace.count();
      Reach(time, after);
    }
  }

  // Until something ends.
  void Wait(std::int64_t time, State s) {
    std::int64_t step = 0;
    for (const std::int64_t left : {s.task_left, s.out_left, s.in_left}) {
      if (left > 0 && (step == 0 || left < step)) step = left;
    }
    if (step == 0) return;
    const auto pass = [&](std::int64_t* left) {
      if (*left == 0) return false;
      *left -= step;
      return *left == 0;
    };
    if (pass(&s.task_left)) {
      s.filled |= Of(graph_.tasks[s.next - 1].writes);
      s.workspace = 0;
    }
    if (pass(&s.out_left)) s.on_host |= One(std::exchange(s.out, 0));
    if (pass(&s.in_left)) s.filled |= One(std::exchange(s.in, 0));
    Reach(time + step, s);
  }

  void Reach(std::int64_t time, const State& state) {
    const auto [known, first] = known_.try_emplace(state, time);
    if (!first && known->second <= time) return;
    known->second = time;
    open_.emplace(time + RestOf(state), state);
  }

  std::int64_t RestOf(const State& state) const {
    return state.task_left + rest_[state.next];
  }

  const TrainingGraph& graph_;
  const std::int64_t budget_;
  std::vector<Blocks> uses_;        // by task
  std::vector<std::int64_t> rest_;  // by task: the least from there on
  std::map<State, std::int64_t> known_;
  using Entry = std::pair<std::int64_t, State>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SOLVER_MEMORY_MOVES_OPTIMUM_H_
