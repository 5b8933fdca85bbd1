#include "solver/memory/best/program.h"

#include <algorithm>
#include <utility>

#include "solver/memory/request.h"

namespace ucudnn {
namespace {

bool Contains(const std::vector<std::size_t>& list, std::size_t item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

bool IsForward(const Task& task) { return task.kind == TaskKind::kForward; }

// Chooses the order of tasks.
class Sequencer {
 public:
  Sequencer(const RoundModel& round, const std::vector<bool>& recomputed)
      : round_(round),
        graph_(*round.graph),
        recomputed_(recomputed),
        missing_(round.size.size()),
        last_forward_(round.size.size()),
        writers_(round.size.size()) {
    for (std::size_t place = 0; place < round.tasks.size(); ++place) {
      const std::size_t task = round.tasks[place];
      if (!IsForward(graph_.tasks[task])) continue;
      for (const std::size_t block : round.BlocksOf(task)) {
        last_forward_[block] = place;
      }
      for (const std::size_t block : graph_.tasks[task].writes) {
        writers_[block].push_back(task);
      }
    }
  }

  std::vector<std::size_t> Order() {
    for (std::size_t place = 0; place < round_.tasks.size(); ++place) {
      const std::size_t task = round_.tasks[place];
      const bool forward = IsForward(graph_.tasks[task]);
      if (!forward) Restore(task);
      order_.push_back(task);
      if (!forward) continue;
      for (const std::size_t block : round_.BlocksOf(task)) {
        if (recomputed_[block] && last_forward_[block] == place) {
          missing_[block] = true;
        }
      }
    }
    return std::move(order_);
  }

 private:
  // Computes again what the task reads and is missing.
  void Restore(std::size_t task) {
    for (const std::size_t block : round_.reads[task]) {
      if (!missing_[block]) continue;
      // First: its own writers in place read it too.
      missing_[block] = false;
      for (const std::size_t writer : writers_[block]) {
        Restore(writer);
        order_.push_back(writer);
        for (const std::size_t other : graph_.tasks[writer].writes) {
          missing_[other] = false;
        }
      }
    }
  }

  const RoundModel& round_;
  const TrainingGraph& graph_;
  const std::vector<bool>& recomputed_;
  std::vector<bool> missing_;
  std::vector<std::size_t> last_forward_;
  std::vector<std::vector<std::size_t>> writers_;  // in the forward pass
  std::vector<std::size_t> order_;
};

constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

// Whether every task reads what the program order's last writer wrote.
bool ReadsAsInProgramOrder(const RoundModel& round,
                           const std::vector<std::size_t>& order) {
  const TrainingGraph& graph = *round.graph;
  std::vector<std::size_t> writer(round.size.size(), kNobody);
  std::vector<std::vector<std::size_t>> wanted(graph.tasks.size());
  for (const std::size_t task : round.tasks) {
    for (const std::size_t block : round.reads[task]) {
      wanted[task].push_back(writer[block]);
    }
    for (const std::size_t block : graph.tasks[task].writes) {
      writer[block] = task;
    }
  }
  const std::vector<std::size_t> last = std::move(writer);
  writer.assign(round.size.size(), kNobody);
  for (const std::size_t task : order) {
    for (std::size_t i = 0; i < round.reads[task].size(); ++i) {
      if (writer[round.reads[task][i]] != wanted[task][i]) return false;
    }
    for (const std::size_t block : graph.tasks[task].writes) {
      writer[block] = task;
    }
  }
  for (std::size_t block = 0; block < last.size(); ++block) {
    if (round.persistent[block] && writer[block] != last[block]) return false;
  }
  return true;
}

struct Use {
  int place;
  bool reads;
  bool writes;
};

}  // namespace

std::vector<bool> RecomputableBlocks(const RoundModel& round) {
  const TrainingGraph& graph = *round.graph;
  std::vector<bool> written(round.size.size());
  std::vector<bool> spoilt(round.size.size());
  std::vector<bool> needed(round.size.size());
  for (const std::size_t i : round.tasks) {
    const Task& task = graph.tasks[i];
    if (!IsForward(task)) {
      for (const std::size_t block : round.reads[i]) needed[block] = true;
    }
    for (const std::size_t block : task.writes) {
      if (IsForward(task) && task.recomputable) {
        written[block] = true;
      } else {
        spoilt[block] = true;
      }
    }
  }
  std::vector<bool> result(round.size.size());
  for (std::size_t block = 0; block < result.size(); ++block) {
    result[block] = written[block] && !spoilt[block] && needed[block] &&
                    !round.persistent[block] && !round.IsInput(block);
  }
  return result;
}

std::optional<RoundProgram> MakeProgram(const RoundModel& round,
                                        ProgramChoices choices) {
  const TrainingGraph& graph = *round.graph;
  const std::size_t blocks = round.size.size();
  choices.recomputed.resize(blocks);
  choices.hosted.resize(blocks);
  RoundProgram program;
  program.round = &round;
  program.tasks = Sequencer(round, choices.recomputed).Order();
  if (!ReadsAsInProgramOrder(round, program.tasks)) return std::nullopt;

  std::vector<std::vector<Use>> uses(blocks);
  std::vector<bool> ran(graph.tasks.size());
  for (int place = 0; place < program.end(); ++place) {
    const std::size_t task = program.tasks[static_cast<std::size_t>(place)];
    const bool again = ran[task];
    ran[task] = true;
    for (const std::size_t block : round.BlocksOf(task)) {
      if (!again && !round.used_again.empty() && round.used_again[block]) {
        continue;
      }
      uses[block].push_back({place, Contains(round.reads[task], block),
                             Contains(graph.tasks[task].writes, block)});
    }
  }
  std::vector<std::int64_t> change(program.tasks.size() + 1);
  program.dies.resize(program.tasks.size());
  for (std::size_t block = 0; block < blocks; ++block) {
    program.size.push_back(Aligned(round.size[block]).count());
    const std::int64_t size = program.size.back();
    const bool input = round.IsInput(block);
    if (round.persistent[block] ? !choices.hosted[block]
                                : input && !choices.inputs_leave) {
      program.resident += size;
      if (input && !uses[block].empty()) {
        program.dies[static_cast<std::size_t>(uses[block].back().place)]
            .push_back(block);
      }
      continue;
    }
    if (uses[block].empty()) {
      // It takes its place and is never used.
      if (input) program.resident += size;
      continue;
    }
    const bool hosted = round.persistent[block];
    int before = -1;  // the last use
    int written = -1;
    bool alive = input;
    const auto gap = [&](int until, bool forced) {
      if (until - before < 2 && !forced) return;
      if (!input && !hosted && !choices.activations_leave) return;
      program.gaps.push_back({block, before, until, written, forced});
    };
    const auto occupy = [&](int first, int last) {
      change[static_cast<std::size_t>(first)] += size;
      change[static_cast<std::size_t>(last)] -= size;
    };
    if (hosted) {
      gap(uses[block].front().place, true);
      occupy(0, uses[block].front().place);
    }
    for (const Use& use : uses[block]) {
      if (alive && !use.reads && !input && !hosted) {
        program.dies[static_cast<std::size_t>(before)].push_back(block);
        alive = false;
      }
      if (alive) {
        gap(use.place, false);
        occupy(before + 1, use.place);
      }
      occupy(use.place, use.place + 1);
      alive = true;
      before = use.place;
      if (use.writes) written = use.place;
    }
    if (hosted) {
      gap(program.end(), true);
      occupy(before + 1, program.end());
    } else {
      program.dies[static_cast<std::size_t>(before)].push_back(block);
    }
  }
  std::int64_t live = 0;
  for (std::size_t place = 0; place < program.tasks.size(); ++place) {
    program.live.push_back(live += change[place]);
  }
  std::stable_sort(
      program.gaps.begin(), program.gaps.end(),
      [](const BlockGap& a, const BlockGap& b) { return a.after < b.after; });
  program.choices = std::move(choices);
  return program;
}

}  // namespace ucudnn
