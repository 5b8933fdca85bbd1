#include "solver/memory/best/program.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "solver/memory/request.h"

namespace ucudnn {
namespace {

bool Contains(const std::vector<std::size_t>& list, std::size_t item) {
  return std::ranges::find(list, item) != list.end();
}

bool IsForward(const Task& task) { return task.kind == TaskKind::kForward; }

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

ProgramMaker::ProgramMaker(const RoundModel& round) : round_(round) {
  FindAccesses();
  FindWriters();
  for (const Bytes size : round.size) size_.push_back(Aligned(size).count());
}

void ProgramMaker::FindAccesses() {
  const TrainingGraph& graph = *round_.graph;
  for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
    first_access_.push_back(accesses_.size());
    for (const std::size_t block : round_.BlocksOf(task)) {
      accesses_.push_back({block, Contains(round_.reads[task], block),
                           Contains(graph.tasks[task].writes, block), false,
                           kNobody});
    }
    const std::optional<TaskRecipe>& recipe = graph.tasks[task].recipe;
    if (!recipe) continue;
    for (const std::size_t block : recipe->reads) {
      accesses_.push_back({block, true, false, true, kNobody});
    }
    for (const std::size_t block : recipe->writes) {
      accesses_.push_back({block, false, true, true, kNobody});
    }
  }
  first_access_.push_back(accesses_.size());
  last_writer_.assign(round_.size.size(), kNobody);
  for (const std::size_t task : round_.tasks) {
    for (std::size_t i = first_access_[task]; i < first_access_[task + 1];
         ++i) {
      Access& access = accesses_[i];
      access.writer = last_writer_[access.block];
      if (access.writes && !access.only_rerun)
        last_writer_[access.block] = task;
    }
  }
}

void ProgramMaker::FindWriters() {
  last_forward_.assign(round_.size.size(), 0);
  forward_writers_.resize(round_.size.size());
  for (std::size_t place = 0; place < round_.tasks.size(); ++place) {
    const std::size_t task = round_.tasks[place];
    if (!IsForward(round_.graph->tasks[task])) continue;
    for (const Access& access : AccessesOf(task)) {
      if (access.only_rerun) continue;
      last_forward_[access.block] = place;
      if (access.writes) forward_writers_[access.block].push_back(task);
    }
  }
}

std::vector<std::size_t> ProgramMaker::Order(const ProgramChoices& choices) {
  std::vector<std::size_t> order;
  order.reserve(2 * round_.tasks.size());
  missing_.assign(round_.size.size(), 0);
  for (std::size_t place = 0; place < round_.tasks.size(); ++place) {
    const std::size_t task = round_.tasks[place];
    const bool forward = IsForward(round_.graph->tasks[task]);
    if (!forward) Restore(task, choices, &order);
    order.push_back(task);
    if (!forward) continue;
    for (const Access& access : AccessesOf(task)) {
      if (choices.recomputed[access.block] && !access.only_rerun &&
          last_forward_[access.block] == place) {
        missing_[access.block] = 1;
      }
    }
  }
  return order;
}

// Computes again what the task reads and is missing.
void ProgramMaker::Restore(std::size_t task, const ProgramChoices& choices,
                           std::vector<std::size_t>* order) {
  for (const Access& access : AccessesOf(task)) {
    if (!access.reads || missing_[access.block] == 0) continue;
    if (order->size() > MostTasks()) return;
    // First: its own writers in place read it too.
    missing_[access.block] = 0;
    for (const std::size_t writer : forward_writers_[access.block]) {
      Restore(writer, choices, order);
      order->push_back(writer);
      for (const Access& other : AccessesOf(writer)) {
        missing_[other.block] = !other.writes && choices.repeated[other.block];
      }
    }
  }
}

std::vector<char> ProgramMaker::FindReruns(
    const std::vector<std::size_t>& order) {
  std::vector<char> reruns;
  reruns.reserve(order.size());
  ran_.assign(round_.graph->tasks.size(), 0);
  for (const std::size_t task : order) {
    reruns.push_back(ran_[task]);
    ran_[task] = 1;
  }
  return reruns;
}

// Whether every task reads what the program order's last writer wrote.
bool ProgramMaker::ReadsAsInProgramOrder(const RoundProgram& program) {
  writer_.assign(round_.size.size(), kNobody);
  for (std::size_t place = 0; place < program.tasks.size(); ++place) {
    const std::size_t task = program.tasks[place];
    for (const Access& access : AccessesOf(task)) {
      if (access.only_rerun && !program.reruns[place]) continue;
      std::size_t& writer = writer_[access.block];
      if (access.reads && writer != access.writer) return false;
      if (access.writes) writer = task;
    }
  }
  for (std::size_t block = 0; block < writer_.size(); ++block) {
    if (round_.persistent[block] && writer_[block] != last_writer_[block]) {
      return false;
    }
  }
  return true;
}

void ProgramMaker::FindUses(const RoundProgram& program) {
  uses_.resize(round_.size.size());
  for (std::vector<Use>& uses : uses_) uses.clear();
  for (std::size_t place = 0; place < program.tasks.size(); ++place) {
    for (const Access& access : AccessesOf(program.tasks[place])) {
      if (access.only_rerun && !program.reruns[place]) continue;
      uses_[access.block].push_back(
          {static_cast<int>(place), access.reads, access.writes});
    }
  }
}

// Where the block is, its gaps, and where it dies.
void ProgramMaker::AddBlock(std::size_t block, RoundProgram* program) {
  const std::vector<Use>& uses = uses_[block];
  const ProgramChoices& choices = program->choices;
  const std::int64_t size = size_[block];
  const bool input = round_.IsInput(block);
  if (round_.persistent[block] ? !choices.hosted[block]
                               : input && !choices.inputs_leave) {
    program->resident += size;
    if (input && !uses.empty()) deaths_.emplace_back(uses.back().place, block);
    return;
  }
  if (uses.empty()) {
    // It takes its place and is never used.
    if (input) program->resident += size;
    return;
  }
  const bool hosted = round_.persistent[block];
  int before = -1;  // the last use
  int written = -1;
  bool alive = input;
  const auto gap = [&](int until, bool forced) {
    if (until - before < 2 && !forced) return;
    if (!input && !hosted && !choices.activations_leave) return;
    program->gaps.push_back({block, before, until, written, forced});
  };
  const auto occupy = [&](int first, int last) {
    change_[static_cast<std::size_t>(first)] += size;
    change_[static_cast<std::size_t>(last)] -= size;
  };
  if (hosted) {
    gap(uses.front().place, true);
    occupy(0, uses.front().place);
  }
  for (const Use& use : uses) {
    if (alive && !use.reads && !input && !hosted) {
      deaths_.emplace_back(before, block);
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
    gap(program->end(), true);
    occupy(before + 1, program->end());
  } else {
    deaths_.emplace_back(before, block);
  }
}

void ProgramMaker::SortByPlace(RoundProgram* program) {
  std::ranges::stable_sort(
      program->gaps,
      [](const BlockGap& a, const BlockGap& b) { return a.after < b.after; });
  std::ranges::stable_sort(
      deaths_, [](const auto& a, const auto& b) { return a.first < b.first; });
  program->dies.reserve(deaths_.size());
  program->dies_until.resize(program->tasks.size());
  for (const auto& [place, block] : deaths_) {
    program->dies.push_back(block);
    ++program->dies_until[static_cast<std::size_t>(place)];
  }
  std::partial_sum(program->dies_until.begin(), program->dies_until.end(),
                   program->dies_until.begin());
}

std::optional<RoundProgram> ProgramMaker::Make(ProgramChoices choices) {
  const std::size_t blocks = round_.size.size();
  choices.recomputed.resize(blocks);
  choices.repeated.resize(blocks);
  choices.hosted.resize(blocks);
  RoundProgram program;
  program.round = &round_;
  program.tasks = Order(choices);
  if (program.tasks.size() > MostTasks()) return std::nullopt;
  program.reruns = FindReruns(program.tasks);
  if (!ReadsAsInProgramOrder(program)) return std::nullopt;
  program.choices = std::move(choices);
  program.size = size_;
  program.gaps.reserve(accesses_.size());
  FindUses(program);
  change_.assign(program.tasks.size() + 1, 0);
  deaths_.clear();
  for (std::size_t block = 0; block < blocks; ++block) {
    AddBlock(block, &program);
  }
  SortByPlace(&program);
  std::int64_t live = 0;
  program.live.reserve(program.tasks.size());
  for (std::size_t place = 0; place < program.tasks.size(); ++place) {
    program.live.push_back(live += change_[place]);
  }
  return program;
}

std::optional<RoundProgram> MakeProgram(const RoundModel& round,
                                        ProgramChoices choices) {
  return ProgramMaker(round).Make(std::move(choices));
}

void KeepReserve(double part, std::int64_t capacity, RoundProgram* program) {
  const auto away = [&](std::int64_t live) {
    return static_cast<double>(
        std::max<std::int64_t>(0, program->resident + live - capacity));
  };
  const double most = away(*std::ranges::max_element(program->live));
  if (most == 0) return;
  for (std::int64_t& live : program->live) {
    live += static_cast<std::int64_t>(part * static_cast<double>(capacity) *
                                      (1 - away(live) / most));
  }
}

}  // namespace ucudnn
