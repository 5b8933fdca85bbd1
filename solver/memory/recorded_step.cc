#include "solver/memory/recorded_step.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
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
// A plan within a millionth of its bound is not improved further: what is
// improved less far is sometimes slower than a plan within a smaller budget.
constexpr std::int64_t kCloseToBound = 1'000'000;

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
// saves; the latter takes no time, unless a recipe computes the tensor again.
struct StepGraph {
  TrainingGraph graph;
  std::vector<std::size_t> segment;  // by task; kNoNumber: it makes a tensor
  std::vector<std::size_t> tensor;   // by task; kNoNumber: it is a segment
};

class StepGraphMaker {
 public:
  StepGraphMaker(const RecordedStep& step, bool recompute)
      : step_(step), recompute_(recompute) {}

  StepGraph Make() {
    made_.graph.network = "recorded step";
    made_.graph.batch = BatchSize(1);
    made_.graph.device = step_.link;
    made_.graph.layers = {{"step", "recorded"}};
    std::vector<std::vector<std::size_t>> reads(step_.segments.size());
    for (std::size_t i = 0; i < step_.tensors.size(); ++i) {
      const RecordedTensor& tensor = step_.tensors[i];
      AddBlock(fmt::format("tensor {}", i), tensor.bytes);
      // In each segment, since between them nothing can leave.
      for (std::size_t s = tensor.hook + 1; s <= tensor.held; ++s) {
        reads[s].push_back(i);
      }
      for (const std::size_t use : tensor.uses) reads[use].push_back(i);
    }
    std::size_t next = 0;
    for (std::size_t s = 0; s < step_.segments.size(); ++s) {
      AddSegment(s, std::move(reads[s]));
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

  void AddTask(Task task, std::size_t segment, std::size_t tensor) {
    made_.graph.tasks.push_back(std::move(task));
    made_.segment.push_back(segment);
    made_.tensor.push_back(tensor);
  }

  void AddSegment(std::size_t s, std::vector<std::size_t> reads) {
    const RecordedSegment& segment = step_.segments[s];
    Task task;
    task.name = fmt::format("segment {}", s);
    task.kind = segment.backward ? TaskKind::kBackward : TaskKind::kForward;
    task.reads = std::move(reads);
    task.work.fixed = segment.time;
    if (segment.bytes > Bytes(0)) {
      task.writes = {AddBlock("besides " + task.name, segment.bytes)};
    }
    AddTask(std::move(task), s, kNoNumber);
  }

  void AddTensor(std::size_t i) {
    Task task;
    task.name = fmt::format("making tensor {}", i);
    task.kind = TaskKind::kForward;
    task.writes = {i};
    task.work.fixed = Nanoseconds(0);
    if (const auto& recipe = step_.tensors[i].recipe; recipe && recompute_) {
      task.recomputable = true;
      task.recipe = {recipe->time, recipe->reads, {}};
      if (recipe->bytes > Bytes(0)) {
        task.recipe->writes = {AddBlock("besides " + task.name, recipe->bytes)};
      }
    }
    AddTask(std::move(task), kNoNumber, i);
  }

  const RecordedStep& step_;
  const bool recompute_;
  StepGraph made_;
};

// Turns the schedule of a program into actions of hooks.
class ActionLister {
 public:
  ActionLister(const StepGraph& made, const RecordedStep& step,
               const FoundRound& planned)
      : made_(made),
        step_(step),
        program_(*planned.program),
        scheduler_(*planned.scheduler),
        moved_(planned.choice.choices.moved),
        schedule_(planned.choice.schedule) {
    FindHooks();
  }

  std::vector<HookAction> Actions() {
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
      if (program_.reruns[At(k)] != 0) {
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
      if (made_.segment[program_.tasks[place]] == kNoNumber &&
          program_.reruns[place] == 0) {
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
    std::size_t next = kNoNumber;
    for (std::size_t place = program_.tasks.size(); place-- > 0;) {
      const std::size_t task = program_.tasks[place];
      if (made_.segment[task] != kNoNumber) {
        next = made_.segment[task] == 0 ? kNoNumber : made_.segment[task] - 1;
      } else if (program_.reruns[place] == 0) {
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
  std::vector<HookAction> actions_;
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

// Searches for plans of a step by some ways. Plans by fewer ways are plans by
// more, and plans within a smaller budget are plans within a larger one: these
// are where searches start, so that more of either is never slower.
class StepSearch {
 public:
  static Result<std::unique_ptr<StepSearch>> Make(
      const RecordedStep& step, const RecordedRequest& request) {
    std::unique_ptr<StepSearch> made(new StepSearch(step, request));
    UCUDNN_ASSIGN_OR_RETURN(
        made->round_, ModelRound(made->made_.graph, made->made_.graph.batch,
                                 true, false, TaskRuns::kUndivided));
    made->options_.emplace(made->round_);
    return made;
  }

  const StepGraph& graph() const { return made_; }

  // If nothing fits, the result misses the least budget that would do. Budgets
  // count in whole units of kPlanAlignment, as all sizes do.
  FoundRound Plan(Bytes budget) {
    budget -= Bytes(budget.count() % kPlanAlignment.count());
    FoundRound best = Search(budget, {});
    if (best.choice.missing > 0) {
      const LeastMemory least = WithUnitTimes()->Least();
      best = Search(budget, {least.choices});
      if (best.choice.missing > 0) {
        best.choice.missing = least.bytes.count();
        return best;
      }
    }
    for (Bytes rung = RungBelow(budget);
         rung > Bytes(0) &&
         Bound(rung) < Nanoseconds(best.choice.schedule.time) &&
         !request_.stop.stop_requested();
         rung = RungBelow(rung)) {
      FoundRound lower = Search(rung, {});
      if (lower.choice.missing > 0) break;
      if (Better(lower.choice, best.choice)) best = std::move(lower);
    }
    return best;
  }

  // No plan within the budget takes less; Nanoseconds::max() if none fits.
  Nanoseconds Bound(Bytes budget) const {
    MemoryFreedom freedom;
    freedom.recomputes = request_.recompute;
    const RoundBound bound(made_.graph, false, RoundBound::Updates::kInOrder,
                           freedom);
    RoundBound::Costs costs;
    for (const Task& task : made_.graph.tasks) {
      costs.push_back({{0, static_cast<double>(task.work.fixed->count())}});
    }
    const double time =
        bound.Bound(made_.graph.batch, budget, std::move(costs));
    return time == kNever ? Nanoseconds::max()
                          : Nanoseconds(std::llround(std::floor(time)));
  }

 private:
  StepSearch(const RecordedStep& step, const RecordedRequest& request)
      : step_(step),
        request_(request),
        made_(StepGraphMaker(step, request.recompute).Make()) {}

  struct LeastMemory {
    Bytes bytes;
    ProgramChoices choices;
  };

  // Times and rates differ from one recording to the next, and must not decide
  // what the least is.
  std::unique_ptr<StepSearch> WithUnitTimes() const {
    RecordedStep step = step_;
    step.link = {};
    step.link.d2h_rate = step.link.h2d_rate = 1e3;
    for (RecordedSegment& segment : step.segments) {
      segment.time = std::chrono::microseconds(1);
    }
    for (RecordedTensor& tensor : step.tensors) {
      if (tensor.recipe) tensor.recipe->time = std::chrono::microseconds(1);
    }
    return Make(step, request_).value();
  }

  LeastMemory Least() const {
    FoundRound found = Search(Bytes(0), {});
    while (true) {
      const Bytes least(CoverExcess(*found.scheduler, 0).missing);
      const ProgramChoices& choices = found.program->choices;
      FoundRound lower = Search(least - kPlanAlignment, {choices});
      if (lower.choice.missing > 0) return {least, choices};
      found = std::move(lower);
    }
  }

  FoundRound Search(Bytes budget, std::vector<ProgramChoices> starts) const {
    RoundLimits limits;
    const Nanoseconds bound = Bound(budget);
    limits.gaps.capacity = budget.count();
    limits.gaps.enough = bound == Nanoseconds::max()
                             ? 0
                             : (bound + bound / kCloseToBound).count();
    limits.gaps.effort = std::min(
        kMostRecordedSchedules,
        kRecordedEffort / static_cast<std::int64_t>(round_.tasks.size()));
    limits.gaps.stop = request_.stop;
    limits.programs = request_.recompute ? kRecordedPrograms : 0;
    ProgramChoices choices;
    choices.activations_leave = false;
    if (request_.offload && request_.recompute) {
      starts.push_back(SearchRound(round_, *options_, choices, limits, starts)
                           .program->choices);
    }
    choices.activations_leave = request_.offload;
    return SearchRound(round_, *options_, choices, limits, starts);
  }

  const RecordedStep step_;
  const RecordedRequest request_;
  const StepGraph made_;
  RoundModel round_;
  std::optional<TaskOptions> options_;
};

}  // namespace

std::string_view Name(SavedAction action) {
  constexpr std::array<std::string_view, 5> kNames = {"copy", "free", "fetch",
                                                      "recompute", "drop"};
  return kNames[static_cast<std::size_t>(action)];
}

Result<PlainStep> PlainRecordedStep(const RecordedStep& step) {
  UCUDNN_RETURN_IF_ERROR(CheckStep(step));
  PlainStep plain{.peak = PlainPeak(step)};
  for (const RecordedSegment& segment : step.segments) {
    plain.time += segment.time;
  }
  return plain;
}

Result<RecordedPlan> PlanRecordedStep(const RecordedStep& step,
                                      const RecordedRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const PlainStep plain, PlainRecordedStep(step));
  UCUDNN_ASSIGN_OR_RETURN(const auto search, StepSearch::Make(step, request));
  const FoundRound planned = search->Plan(request.budget);
  if (planned.choice.missing > 0) {
    return FailBelow(planned.choice.missing,
                     "budget_bytes: {}; the least that is accepted is {}{}",
                     request.budget.count(), planned.choice.missing,
                     request.stop.stop_requested()
                         ? "; the search was cut off, so less may do"
                         : "");
  }
  ActionLister lister(search->graph(), step, planned);
  RecordedPlan plan;
  plan.time = Nanoseconds(planned.choice.schedule.time);
  plan.ideal_time = plain.time;
  plan.lower_bound = std::max(search->Bound(request.budget), plan.ideal_time);
  plan.cut_off = request.stop.stop_requested() && plan.time > plan.lower_bound;
  plan.moved = Bytes(planned.choice.schedule.moved);
  plan.peak = lister.Peak();
  plan.plain_peak = plain.peak;
  plan.actions = lister.Actions();
  return plan;
}

}  // namespace ucudnn
