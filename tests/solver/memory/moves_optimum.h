#ifndef UCUDNN_TESTS_SOLVER_MEMORY_MOVES_OPTIMUM_H_
#define UCUDNN_TESTS_SOLVER_MEMORY_MOVES_OPTIMUM_H_

// The least time of a tiny graph's iteration of one round, by exhaustion: in
// bytes without addresses, whole blocks leave and return at any time, and tasks
// run twice or not.

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
// graphs of activations and gradients alone, 16 at most. The contents of a
// block are those after so many of the tasks that write it.
class MovesOptimum {
 public:
  MovesOptimum(const TrainingGraph& graph, Bytes budget,
               bool recomputes = false)
      : graph_(graph), budget_(budget.count()), recomputes_(recomputes) {
    Versions versions;
    for (const Task& task : graph.tasks) {
      uses_.push_back(Of(task.reads) | Of(task.writes));
      before_.push_back(versions);
      for (const std::size_t block : task.writes) {
        versions.Set(block, versions.Of(block) + 1);
      }
      if (RunsAgain(task)) {
        sources_ |= Of(task.reads);
      } else {
        spoilt_ |= Of(task.writes);
      }
    }
    const std::size_t n = graph.tasks.size();
    used_from_.assign(n + 1, 0);
    rest_.assign(n + 1, 0);
    for (std::size_t i = n; i-- > 0;) {
      used_from_[i] = used_from_[i + 1] | uses_[i];
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

  // Of contents; 0 where there are none.
  class Versions {
   public:
    std::uint64_t Of(std::size_t block) const { return all_ >> 4 * block & 15; }
    void Set(std::size_t block, std::uint64_t version) {
      all_ ^= (Of(block) ^ version) << 4 * block;
    }
    bool operator<(const Versions& other) const { return all_ < other.all_; }

   private:
    std::uint64_t all_ = 0;
  };

  struct State {
    std::size_t next = 0;        // task of the program
    std::size_t task = 0;        // the last that began
    std::int64_t task_left = 0;  // of it, if it still runs
    std::int64_t workspace = 0;  // its
    std::int64_t out_left = 0;   // of the transfer to the host
    std::size_t out = 0;         // its block
    std::int64_t in_left = 0;
    std::size_t in = 0;
    Blocks present = 0;  // allocated
    Versions filled;
    Versions on_host;

    auto Tie() const {
      return std::tie(next, task, task_left, workspace, out_left, out, in_left,
                      in, present, filled, on_host);
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
    return s.task_left > 0 ? uses_[s.task] : Blocks{0};
  }

  bool RunsAgain(const Task& task) const {
    return recomputes_ && task.recomputable;
  }

  void Expand(std::int64_t time, const State& s) {
    if (s.task_left == 0) {
      if (s.next < graph_.tasks.size()) StartTask(time, s, s.next);
      for (std::size_t task = 0; task < s.next; ++task) {
        if (RunsAgain(graph_.tasks[task])) StartTask(time, s, task);
      }
    }
    const Blocks written =
        s.task_left > 0 ? Of(graph_.tasks[s.task].writes) : Blocks{0};
    for (std::size_t block = 0; block < graph_.blocks.size(); ++block) {
      const Blocks one = One(block);
      const bool leaving = s.out_left > 0 && s.out == block;
      const bool arriving = s.in_left > 0 && s.in == block;
      const std::uint64_t filled = s.filled.Of(block);
      const std::uint64_t on_host = s.on_host.Of(block);
      if ((s.present & one) != 0) {
        const bool needed = ((used_from_[s.next] | sources_) & one) != 0;
        // What nothing needs is released at once.
        if ((Running(s) & one) == 0 && !leaving && !arriving &&
            (!needed || on_host > 0 || (spoilt_ & one) == 0)) {
          State after = s;
          after.present &= ~one;
          after.filled.Set(block, 0);
          Reach(time, after);
          if (!needed) return;
        }
        if (s.out_left == 0 && needed && filled > 0 && (written & one) == 0 &&
            on_host != filled) {
          State after = s;
          after.out_left = TransferTime(block, graph_.device.d2h_rate);
          after.out = block;
          Reach(time, after);
        }
      } else if (s.in_left == 0 && on_host > 0 &&
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

  void StartTask(std::int64_t time, const State& s, std::size_t index) {
    const Task& task = graph_.tasks[index];
    for (const std::size_t block : task.reads) {
      if (s.filled.Of(block) != before_[index].Of(block)) return;
    }
    const Blocks writes = Of(task.writes);
    if (s.out_left > 0 && (writes & One(s.out)) != 0) return;
    if (s.in_left > 0 && (writes & One(s.in)) != 0) return;
    State after = s;
    if (index == s.next) ++after.next;
    after.task = index;
    after.present |= writes;
    for (const std::size_t block : task.writes) {
      after.filled.Set(block, 0);
      if (!recomputes_) after.on_host.Set(block, 0);
    }
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
      const std::size_t task = std::exchange(s.task, 0);
      for (const std::size_t block : graph_.tasks[task].writes) {
        s.filled.Set(block, before_[task].Of(block) + 1);
      }
      s.workspace = 0;
    }
    if (pass(&s.out_left)) {
      const std::size_t block = std::exchange(s.out, 0);
      s.on_host.Set(block, s.filled.Of(block));
    }
    if (pass(&s.in_left)) {
      const std::size_t block = std::exchange(s.in, 0);
      s.filled.Set(block, s.on_host.Of(block));
    }
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
  const bool recomputes_;
  std::vector<Blocks> uses_;        // by task
  std::vector<Blocks> used_from_;   // by task: by it and all after it
  std::vector<Versions> before_;    // by task: what it finds
  Blocks sources_ = 0;              // read by tasks that may run again
  Blocks spoilt_ = 0;               // written by tasks that may not
  std::vector<std::int64_t> rest_;  // by task: the least from there on
  std::map<State, std::int64_t> known_;
  using Entry = std::pair<std::int64_t, State>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SOLVER_MEMORY_MOVES_OPTIMUM_H_
