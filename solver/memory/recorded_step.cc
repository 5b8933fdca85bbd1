#include "solver/memory/recorded_step.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "base/training/graph.h"
#include "solver/memory/best/round_search.h"
#include "solver/memory/best/task_options.h"
#include "solver/memory/bounds.h"
#include "solver/memory/least_time.h"
#include "solver/memory/round_bound.h"
#include "solver/memory/round_model.h"

namespace ucudnn {
namespace {

// Tasks in all schedules, and programs with recomputation, that a search tries.
constexpr std::int64_t kRecordedEffort = 4'000'000;
constexpr std::int64_t kMostRecordedSchedules = 4'000;
constexpr std::int64_t kRecordedPrograms = 4'000;
// A plan within a 2000th of its bound is not improved further.
constexpr std::int64_t kCloseToBound = 2000;

constexpr std::size_t kNoNumber = static_cast<std::size_t>(-1);

Status RefuseTensor(std::size_t tensor, std::string_view field,
                    std::size_t value, const std::string& accepted) {
  return Fail(Code::kInvalidArgument, "tensors[{}].{}: {}; {} is accepted",
              tensor, field, value, accepted);
}

Status CheckTensor(const RecordedStep& step, std::size_t i) {
  const RecordedTensor& tensor = step.tensors[i];
  const std::size_t segments = step.segments.size();
  if (tensor.hook + 1 >= segments) {
    return RefuseTensor(i, "hook", tensor.hook,
                        fmt::format("0 to {}", segments - 2));
  }
  if (i > 0 && tensor.hook < step.tensors[i - 1].hook) {
    return RefuseTensor(i, "hook", tensor.hook,
                        fmt::format("{}, that of the tensor before, or more",
                                    step.tensors[i - 1].hook));
  }
  if (tensor.uses.empty()) {
    return Fail(Code::kInvalidArgument,
                "tensors[{}].uses: []; at least one segment is accepted", i);
  }
  std::size_t last = std::max(tensor.hook, tensor.held);
  for (const std::size_t use : tensor.uses) {
    if (use <= last || use >= segments) {
      return RefuseTensor(
          i, "uses", use,
          fmt::format("{} to {}, rising", last + 1, segments - 1));
    }
    last = use;
  }
  if (!tensor.recipe) return {};
  for (const std::size_t read : tensor.recipe->reads) {
    if (read >= i) {
      return RefuseTensor(i, "recipe.reads", read,
                          "a tensor that comes before");
    }
  }
  return {};
}

Status CheckStep(const RecordedStep& step) {
  const std::size_t segments = step.segments.size();
  if (segments < 2 || segments > kMaxRecordedSegments) {
    return Fail(Code::kInvalidArgument,
                "segments: {} of them; 2 to {} are accepted", segments,
                kMaxRecordedSegments);
  }
  if (step.tensors.size() > kMaxRecordedSegments) {
    return Fail(Code::kInvalidArgument,
                "tensors: {} of them; up to {} are accepted",
                step.tensors.size(), kMaxRecordedSegments);
  }
  for (std::size_t i = 0; i < step.tensors.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(CheckTensor(step, i));
  }
  return {};
}

// The step as a training graph. Blocks: the tensors, then what each task needs
// besides. Tasks: for each segment one, and for each tensor that its last hook
// saves.
struct StepGraph {
  TrainingGraph graph;
  std::vector<std::size_t> segment;     // by task; kNoNumber: it makes a tensor
  std::vector<std::size_t> tensor;      // by task; kNoNumber: it is a segment
  std::vector<std::size_t> of_recipes;  // blocks that recipes need besides
  Nanoseconds counted_twice{0};  // of recipes longer than what came before
};

class StepGraphMaker {
 public:
  explicit StepGraphMaker(const RecordedStep& step) : step_(step) {}

  StepGraph Make() {
    made_.graph.network = "recorded step";
    made_.graph.batch = BatchSize(1);
    made_.graph.device = step_.link;
    made_.graph.layers = {{"step", "recorded"}};
    for (const RecordedSegment& segment : step_.segments) {
      times_.push_back(segment.time);
    }
    std::vector<std::vector<std::size_t>> reads(step_.segments.size());
    for (std::size_t i = 0; i < step_.tensors.size(); ++i) {
      const RecordedTensor& tensor = step_.tensors[i];
      AddBlock(fmt::format("tensor {}", i), tensor.bytes);
      // In each segment, since between them nothing can leave.
      for (std::size_t s = tensor.hook + 1; s <= tensor.held; ++s) {
        reads[s].push_back(i);
      }
      for (const std::size_t use : tensor.uses) reads[use].push_back(i);
      if (tensor.recipe) Shorten(tensor.hook, tensor.recipe->time);
    }
    std::size_t next = 0;
    for (std::size_t s = 0; s < step_.segments.size(); ++s) {
      Task task;
      task.name = fmt::format("segment {}", s);
      task.kind =
          step_.segments[s].backward ? TaskKind::kBackward : TaskKind::kForward;
      task.reads = std::move(reads[s]);
      task.work.fixed = times_[s];
      AddTask(std::move(task), step_.segments[s].bytes, s, kNoNumber);
      for (; next < step_.tensors.size() && step_.tensors[next].hook == s;
           ++next) {
        AddTensor(next);
      }
    }
    return std::move(made_);
  }

 private:
  std::size_t AddBlock(std::string name, Bytes bytes) {
    MemoryBlock block;
    block.name = std::move(name);
    block.kind = BlockKind::kActivation;
    block.bytes = bytes;
    made_.graph.blocks.push_back(std::move(block));
    return made_.graph.blocks.size() - 1;
  }

  void AddTask(Task task, Bytes besides, std::size_t segment,
               std::size_t tensor) {
    if (besides > Bytes(0)) {
      task.writes.push_back(AddBlock("besides " + task.name, besides));
    }
    made_.graph.tasks.push_back(std::move(task));
    made_.segment.push_back(segment);
    made_.tensor.push_back(tensor);
  }

  void AddTensor(std::size_t i) {
    const std::optional<RecordedRecipe>& recipe = step_.tensors[i].recipe;
    Task task;
    task.name = fmt::format("making tensor {}", i);
    task.kind = TaskKind::kForward;
    task.writes = {i};
    task.recomputable = recipe.has_value();
    task.work.fixed = recipe ? recipe->time : Nanoseconds(0);
    if (recipe) task.reads = recipe->reads;
    const Bytes besides = recipe ? recipe->bytes : Bytes(0);
    if (besides > Bytes(0)) {
      made_.of_recipes.push_back(made_.graph.blocks.size());  // added next
    }
    AddTask(std::move(task), besides, kNoNumber, i);
  }

  // Takes a recipe's time off the segments in which it ran first.
  void Shorten(std::size_t segment, Nanoseconds time) {
    for (std::size_t s = segment + 1; s-- > 0 && time > Nanoseconds(0);) {
      if (step_.segments[s].backward) break;
      const Nanoseconds part = std::min(time, times_[s]);
      times_[s] -= part;
      time -= part;
    }
    made_.counted_twice += time;
  }

  const RecordedStep& step_;
  StepGraph made_;
  std::vector<Nanoseconds> times_;
};

// Turns the schedule of a program into actions of hooks.
class ActionLister {
 public:
  ActionLister(const StepGraph& made, const RecordedStep& step,
               const PlannedRound& planned)
      : made_(made),
        step_(step),
        program_(*planned.program),
        scheduler_(*planned.scheduler),
        moved_(planned.choice.choices.moved),
        schedule_(planned.choice.schedule) {
    FindHooks();
  }

  std::vector<PlannedAction> Actions() {
    std::size_t next_copy = 0;
    for (int k = 0; k < program_.end(); ++k) {
      for (; next_copy < schedule_.copies.size() &&
             schedule_.copies[next_copy].place < k;
           ++next_copy) {
        Add(SavedAction::kCopy,
            program_.gaps[schedule_.copies[next_copy].gap].block, k);
      }
      if (k > 0) {
        for (const std::size_t block : program_.DiesAt(At(k - 1))) {
          Add(SavedAction::kDrop, block, k);
        }
      }
      for (const bool fetched : {false, true}) {
        for (const std::size_t g : scheduler_.by_until()) {
          if (!Away(g)) continue;
          const int boundary =
              fetched ? schedule_.fetched[g] : schedule_.freed[g];
          if (boundary != k) continue;
          Add(fetched ? SavedAction::kFetch : SavedAction::kFree,
              program_.gaps[g].block, k);
        }
      }
      if (again_[At(k)]) {
        Add(SavedAction::kRecompute, made_.tensor[program_.tasks[At(k)]], k);
      }
    }
    return std::move(actions_);
  }

  // The most bytes in any segment, or while a recipe runs again.
  Bytes Peak() const {
    std::vector<std::int64_t> away(program_.tasks.size() + 1);
    for (std::size_t g = 0; g < program_.gaps.size(); ++g) {
      if (!Away(g)) continue;
      const std::int64_t size = program_.size[program_.gaps[g].block];
      away[At(schedule_.freed[g])] += size;
      away[At(schedule_.fetched[g])] -= size;
    }
    std::int64_t gone = 0;
    std::int64_t peak = 0;
    for (std::size_t place = 0; place < program_.tasks.size(); ++place) {
      gone += away[place];
      if (made_.segment[program_.tasks[place]] == kNoNumber && !again_[place]) {
        continue;  // only a name for the end of a segment
      }
      peak = std::max(peak, program_.live[place] - gone);
    }
    return Bytes(peak);
  }

 private:
  static std::size_t At(int place) { return static_cast<std::size_t>(place); }

  bool Away(std::size_t g) const {
    return moved_[g] && schedule_.freed[g] >= 0 &&
           schedule_.freed[g] < schedule_.fetched[g];
  }

  // The hook in which the task at each place starts; kNoNumber before the
  // first.
  void FindHooks() {
    hook_.assign(program_.tasks.size(), kNoNumber);
    again_.assign(program_.tasks.size(), false);
    std::vector<bool> seen(made_.segment.size());
    for (std::size_t place = 0; place < program_.tasks.size(); ++place) {
      again_[place] = seen[program_.tasks[place]];
      seen[program_.tasks[place]] = true;
    }
    std::size_t next = kNoNumber;
    for (std::size_t place = program_.tasks.size(); place-- > 0;) {
      const std::size_t task = program_.tasks[place];
      if (made_.segment[task] != kNoNumber) {
        next = made_.segment[task] == 0 ? kNoNumber : made_.segment[task] - 1;
      } else if (!again_[place]) {
        next = step_.tensors[made_.tensor[task]].hook;
      }
      hook_[place] = next;
    }
  }

  // Blocks that are no tensors have no actions.
  void Add(SavedAction action, std::size_t block, int boundary) {
    if (block >= step_.tensors.size() || hook_[At(boundary)] == kNoNumber)
      return;
    actions_.push_back({action, block, hook_[At(boundary)]});
  }

  const StepGraph& made_;
  const RecordedStep& step_;
  const RoundProgram& program_;
  const Scheduler& scheduler_;
  const std::vector<char>& moved_;
  const RoundSchedule& schedule_;
  std::vector<std::size_t> hook_;  // by place
  std::vector<bool> again_;        // by place: the task has run before
  std::vector<PlannedAction> actions_;
};

Bytes PlainPeak(const RecordedStep& step) {
  std::vector<Bytes> change(step.segments.size() + 1);
  for (const RecordedTensor& tensor : step.tensors) {
    change[tensor.hook + 1] += tensor.bytes;
    change[tensor.uses.back() + 1] -= tensor.bytes;
  }
  Bytes live;
  Bytes peak;
  for (std::size_t s = 0; s < step.segments.size(); ++s) {
    live += change[s];
    peak = std::max(peak, live + step.segments[s].bytes);
  }
  return peak;
}

Nanoseconds BoundOf(const StepGraph& made, const RecordedRequest& request) {
  TrainingGraph graph = made.graph;
  // The bound would count them where tensors are made first.
  for (const std::size_t block : made.of_recipes) {
    graph.blocks[block].bytes = Bytes(0);
  }
  PlanFreedom freedom;
  freedom.recomputes = request.recompute;
  const RoundBound bound(graph, false, RoundBound::Updates::kInOrder, freedom);
  RoundBound::Costs costs;
  for (const Task& task : graph.tasks) {
    costs.push_back({{0, static_cast<double>(task.work.fixed->count())}});
  }
  const double time =
      bound.Bound(graph.batch, request.budget, std::move(costs));
  return time == kNever ? Nanoseconds::max()
                        : Nanoseconds(std::llround(std::floor(time)));
}

}  // namespace

std::string_view Name(SavedAction action) {
  switch (action) {
    case SavedAction::kCopy:
      return "copy";
    case SavedAction::kFree:
      return "free";
    case SavedAction::kFetch:
      return "fetch";
    case SavedAction::kRecompute:
      return "recompute";
    case SavedAction::kDrop:
      return "drop";
  }
  return "";
}

Result<RecordedPlan> PlanRecordedStep(const RecordedStep& step,
                                      const RecordedRequest& request) {
  UCUDNN_RETURN_IF_ERROR(CheckStep(step));
  const StepGraph made = StepGraphMaker(step).Make();
  UCUDNN_ASSIGN_OR_RETURN(RoundModel round,
                          ModelRound(made.graph, made.graph.batch, true, false,
                                     TaskRuns::kUndivided));
  round.used_again.resize(made.graph.blocks.size());
  for (const std::size_t block : made.of_recipes) {
    round.used_again[block] = true;
  }
  const TaskOptions options(round);
  ProgramChoices choices;
  choices.activations_leave = request.offload;
  RoundLimits limits;
  const Nanoseconds bound = BoundOf(made, request);
  limits.gaps.capacity = request.budget.count();
  limits.gaps.enough =
      bound == Nanoseconds::max() ? 0 : (bound + bound / kCloseToBound).count();
  limits.gaps.effort =
      std::min(kMostRecordedSchedules,
               kRecordedEffort / static_cast<std::int64_t>(round.tasks.size()));
  limits.gaps.stop = request.stop;
  limits.programs = request.recompute ? kRecordedPrograms : 0;
  const PlannedRound planned = SearchRound(round, options, choices, limits);
  if (planned.choice.missing > 0) {
    return Fail(Code::kFailedPrecondition,
                "budget_bytes: {}; the least that is accepted is {}{}",
                request.budget.count(),
                request.budget.count() + planned.choice.missing,
                request.stop.stop_requested()
                    ? "; the search was cut off, so less may do"
                    : "");
  }
  ActionLister lister(made, step, planned);
  RecordedPlan plan;
  plan.time = Nanoseconds(planned.choice.schedule.time) - made.counted_twice;
  for (const RecordedSegment& segment : step.segments) {
    plan.ideal_time += segment.time;
  }
  plan.lower_bound = std::max(bound - made.counted_twice, plan.ideal_time);
  plan.cut_off =
      request.stop.stop_requested() && plan.time > plan.lower_bound;
  plan.moved = Bytes(planned.choice.schedule.moved);
  plan.peak = lister.Peak();
  plan.plain_peak = PlainPeak(step);
  plan.actions = lister.Actions();
  return plan;
}

}  // namespace ucudnn
