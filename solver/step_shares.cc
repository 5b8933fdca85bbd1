#include "solver/step_shares.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/plan/even_shares.h"
#include "solver/assign/assign.h"

namespace ucudnn {
namespace {

// Of the even shares' time: less is noise.
constexpr double kWorthUnevenness = 0.99;

bool SameHooks(const RecordedStep& a, const RecordedStep& b) {
  return std::ranges::equal(a.segments, b.segments, {},
                            &RecordedSegment::backward,
                            &RecordedSegment::backward) &&
         std::ranges::equal(
             a.tensors, b.tensors,
             [](const RecordedTensor& x, const RecordedTensor& y) {
               return x.hook == y.hook && x.held == y.held &&
                      x.uses == y.uses &&
                      x.recipe.has_value() == y.recipe.has_value() &&
                      (!x.recipe || x.recipe->reads == y.recipe->reads);
             });
}

Nanoseconds Line(Nanoseconds from, Nanoseconds to, double part) {
  const auto rise = static_cast<double>((to - from).count());
  return from + Nanoseconds(std::llround(part * rise));
}

// Rounded up, as memory must hold it.
Bytes Line(Bytes from, Bytes to, double part) {
  const auto rise = static_cast<double>((to - from).count());
  return from + Bytes(static_cast<std::int64_t>(std::ceil(part * rise)));
}

class ShareSearch {
 public:
  explicit ShareSearch(const StepProblem& problem) : problem_(problem) {
    for (const StepKind& kind : problem.kinds) {
      most_.push_back(std::min(kind.steps.back().batch, problem.batch));
    }
    for (std::size_t k = 0; k < problem.kinds.size(); ++k) {
      FillTable(k);
      const BatchSize least = tables_[k].empty() ? LeastBatch(problem.kinds[k])
                                                 : tables_[k].begin()->first;
      least_.push_back(problem.all_gpus ? least : BatchSize(0));
    }
  }

  Result<StepShares> Run() {
    if (!problem_.shares.empty()) return Given();
    UCUDNN_RETURN_IF_ERROR(PlanLeast());
    std::optional<StepShares> found;
    Nanoseconds bound{0};
    for (;;) {
      UCUDNN_ASSIGN_OR_RETURN(std::vector<BatchSize> batches, Assign());
      // Plans that were cut off bound nothing.
      if (!cut_off_) bound = Bound(batches);
      UCUDNN_ASSIGN_OR_RETURN(const bool known, PlanAll(batches));
      if (auto shares = SharesOf(batches);
          shares && (!found || shares->makespan < found->makespan)) {
        found = std::move(shares);
      }
      if (known || (found && Stopped())) {
        cut_off_ = cut_off_ || !known;
        break;
      }
    }
    UCUDNN_ASSIGN_OR_RETURN(auto even, Even());
    if (even) found->even = even->makespan;
    if (even && problem_.all_gpus &&
        Ratio(found->makespan, even->makespan) > kWorthUnevenness) {
      found->gpus = std::move(even->gpus);
      found->makespan = even->makespan;
    }
    return Told(*std::move(found), bound);
  }

 private:
  using Place = std::pair<std::size_t, BatchSize>;  // kind and batch

  StepShares Told(StepShares shares, Nanoseconds bound) const {
    shares.lower_bound = bound;
    shares.cut_off = cut_off_;
    shares.most = most_;
    return shares;
  }

  Result<StepShares> Given() {
    UCUDNN_RETURN_IF_ERROR(PlanAll(problem_.shares));
    std::optional<StepShares> shares = SharesOf(problem_.shares);
    if (!shares) {
      return Fail(Code::kFailedPrecondition,
                  "there is no step of one of the shares");
    }
    UCUDNN_ASSIGN_OR_RETURN(const auto even, Even());
    if (even) shares->even = even->makespan;
    return Told(*shares, shares->makespan);
  }

  bool Stopped() const { return problem_.stop.stop_requested(); }

  static double Ratio(Nanoseconds a, Nanoseconds b) {
    return static_cast<double>(a.count()) / static_cast<double>(b.count());
  }

  // The step at a batch from LeastOf to the last.
  MeasuredStep At(const Place& place) const {
    const auto& [k, batch] = place;
    const std::vector<MeasuredStep>& steps = problem_.kinds[k].steps;
    const auto above =
        std::ranges::lower_bound(steps, batch, {}, &MeasuredStep::batch);
    if (above == steps.begin() || above->batch == batch) return *above;
    const MeasuredStep& from = *std::prev(above);
    const double part =
        static_cast<double>((batch - from.batch).count()) /
        static_cast<double>((above->batch - from.batch).count());
    MeasuredStep step;
    step.batch = batch;
    if (from.recorded) {
      step.recorded = Between(*from.recorded, *above->recorded, part);
      return step;
    }
    step.time = Line(from.time, above->time, part);
    if (from.peak > Bytes(0) && above->peak > Bytes(0)) {
      step.peak = Line(from.peak, above->peak, part);
    }
    return step;
  }

  // All batches of the kind that memory may hold, with what no plan of a
  // recorded step beats.
  void FillTable(std::size_t k) {
    std::map<BatchSize, GpuStep>& table = tables_.emplace_back();
    const StepKind& kind = problem_.kinds[k];
    for (BatchSize batch = LeastBatch(kind); batch <= most_[k];
         batch = batch + BatchSize(1)) {
      const MeasuredStep step = At({k, batch});
      GpuStep gpu{.batch = batch, .time = step.time, .peak = step.peak};
      if (step.recorded) {
        // They were checked.
        const PlainStep plain = PlainRecordedStep(*step.recorded).value();
        gpu.time = plain.time;
        gpu.peak = plain.peak;
      }
      gpu.lower_bound = gpu.time;
      const bool fits = gpu.peak <= kind.memory;
      if (!fits && !step.recorded) continue;
      table.emplace(batch, gpu);
      if (!fits) unplanned_.emplace(k, batch);
    }
    AddPasses(kind, &table);
    most_[k] = table.empty() ? BatchSize(0) : table.rbegin()->first;
  }

  // Shares beyond the largest batch, in the fewest equal passes.
  void AddPasses(const StepKind& kind,
                 std::map<BatchSize, GpuStep>* table) const {
    if (kind.passes < 2 || table->empty()) return;
    const std::int64_t most = table->rbegin()->first.count();
    const std::int64_t last =
        std::min(most * kind.passes, problem_.batch.count());
    for (std::int64_t batch = most + 1; batch <= last; ++batch) {
      const std::int64_t passes = (batch + most - 1) / most;
      const auto pass = table->find(BatchSize(batch / passes));
      if (batch % passes != 0 || pass == table->end()) continue;
      GpuStep gpu = pass->second;
      gpu.batch = BatchSize(batch);
      gpu.time = gpu.lower_bound = passes * gpu.time;
      gpu.passes = passes;
      table->emplace(gpu.batch, gpu);
    }
  }

  // Plans a recorded step, and sets its time; false and nothing in the table
  // from this batch on if there is no plan.
  Result<bool> Plan(const Place& place) {
    const auto& [k, batch] = place;
    const auto entry = tables_[k].find(batch);
    if (entry == tables_[k].end()) return false;
    if (unplanned_.erase(place) == 0) return true;
    const Result<RecordedPlan> plan = PlanRecordedStep(
        *At(place).recorded, {.budget = problem_.kinds[k].memory,
                              .recompute = problem_.recompute,
                              .stop = problem_.stop});
    if (!plan && plan.error().code != Code::kFailedPrecondition) {
      return tl::unexpected<Error>(plan.error());
    }
    if (!plan) {
      if (batch == LeastBatch(problem_.kinds[k]))
        least_error_[k] = plan.error();
      tables_[k].erase(entry, tables_[k].end());
      most_[k] = tables_[k].empty() ? BatchSize(0) : tables_[k].rbegin()->first;
      return false;
    }
    cut_off_ = cut_off_ || plan->cut_off;
    entry->second.time = plan->time;
    entry->second.lower_bound = plan->lower_bound;
    entry->second.peak = plan->peak;
    return true;
  }

  // The same; where there is no plan, finds the largest batch that has one.
  Result<bool> PlanOrBisect(const Place& place) {
    UCUDNN_ASSIGN_OR_RETURN(const bool planned, Plan(place));
    if (planned) return true;
    const std::size_t k = place.first;
    // The largest that is known to fit.
    BatchSize fits = LeastBatch(problem_.kinds[k]) - BatchSize(1);
    for (const auto& [batch, step] : tables_[k]) {
      if (!unplanned_.contains({k, batch})) fits = batch;
    }
    while (fits < most_[k]) {
      const BatchSize middle((fits.count() + most_[k].count() + 1) / 2);
      UCUDNN_ASSIGN_OR_RETURN(const bool holds, Plan({k, middle}));
      if (holds) fits = middle;
    }
    return false;
  }

  // A GPU that must have images needs a step of the least batch.
  Status PlanLeast() {
    if (!problem_.all_gpus) return {};
    std::int64_t sum = 0;
    for (const std::size_t k : problem_.gpus) sum += least_[k].count();
    if (sum > problem_.batch.count()) {
      return Fail(Code::kFailedPrecondition,
                  "the mini-batch is {} for {} GPUs, all of which get images; "
                  "{} or more is accepted",
                  problem_.batch.count(), problem_.gpus.size(), sum);
    }
    for (const std::size_t k : problem_.gpus) {
      UCUDNN_ASSIGN_OR_RETURN(const bool planned, Plan({k, least_[k]}));
      if (!planned) return NoRoom(k);
    }
    return {};
  }

  Status NoRoom(std::size_t k) const {
    const StepKind& kind = problem_.kinds[k];
    const auto why = least_error_.find(k);
    const std::string peak =
        why != least_error_.end()
            ? why->second.message
            : fmt::format("it takes {}", FormatBytes(At({k, least_[k]}).peak));
    return Fail(Code::kFailedPrecondition,
                "{}: no step fits into {}; of {} "
                "images, the least, {}",
                kind.name, FormatBytes(kind.memory), LeastBatch(kind).count(),
                peak);
  }

  // The batches of the best assignment for the times of now.
  Result<std::vector<BatchSize>> Assign() const {
    UCUDNN_ASSIGN_OR_RETURN(auto best, AssignWithin(Nanoseconds::max()));
    // Where times do not rise with the batch, a GPU may be faster with more
    // than it must have.
    while (problem_.all_gpus) {
      auto faster = AssignWithin(Bound(best) - Nanoseconds(1));
      if (!faster) break;
      best = *std::move(faster);
    }
    return best;
  }

  // The same by steps that take no longer than `limit`. Images that GPUs must
  // have are dealt beforehand.
  Result<std::vector<BatchSize>> AssignWithin(Nanoseconds limit) const {
    AssignProblem assign;
    std::vector<BatchSize> dealt;  // to each GPU of a kind
    for (std::size_t k = 0; k < tables_.size(); ++k) {
      std::vector<BatchCost>& costs = assign.tables.emplace_back();
      dealt.emplace_back(0);
      for (const auto& [batch, step] : tables_[k]) {
        if (step.time > limit) continue;
        if (problem_.all_gpus && dealt[k] == BatchSize(0)) {
          dealt[k] = batch;
        } else {
          costs.push_back({batch - dealt[k], step.time, step.peak});
        }
      }
    }
    std::vector<BatchSize> batches;
    assign.batch = problem_.batch;
    for (const std::size_t k : problem_.gpus) {
      if (problem_.all_gpus && dealt[k] == BatchSize(0)) {
        return Fail(Code::kFailedPrecondition, "{} has no step",
                    problem_.kinds[k].name);
      }
      batches.push_back(dealt[k]);
      assign.batch = assign.batch - dealt[k];
      assign.gpus.push_back({.table = k});
    }
    if (assign.batch == BatchSize(0)) return batches;
    const Result<Assignment> best = SolveAssignment(assign);
    if (!best) return tl::unexpected<Error>(WhyNone(best.error()));
    for (std::size_t g = 0; g < batches.size(); ++g) {
      batches[g] = batches[g] + best->shares[g].batch;
    }
    return batches;
  }

  // With the largest batch of each kind, if they are too small.
  Error WhyNone(Error error) const {
    std::int64_t sum = 0;
    std::int64_t dealt = 0;
    for (const std::size_t k : problem_.gpus) {
      sum += most_[k].count();
      dealt += least_[k].count();
    }
    if (error.code != Code::kFailedPrecondition) return error;
    BatchSize least = kMaxBatchSize;
    for (const std::size_t k : problem_.gpus) {
      least = std::min(least, LeastBatch(problem_.kinds[k]));
    }
    if (problem_.batch < least) {
      error.message = fmt::format(
          "the mini-batch is {}; {} or more is accepted, the least "
          "that can be computed",
          problem_.batch.count(), least.count());
      return error;
    }
    if (sum >= problem_.batch.count()) {
      if (dealt > 0) {
        error.message =
            fmt::format("beyond the {} images that the GPUs must have: {}",
                        dealt, error.message);
      }
      return error;
    }
    std::vector<std::string> kinds;
    for (std::size_t k = 0; k < most_.size(); ++k) {
      kinds.push_back(fmt::format("{} of {}, {}", problem_.kinds[k].name,
                                  most_[k].count(), WhyMost(k)));
    }
    error.message = fmt::format(
        "the mini-batch is {}; at most {} is accepted, as there are steps on "
        "{}",
        problem_.batch.count(), sum, fmt::join(kinds, "; on "));
    return error;
  }

  std::string WhyMost(std::size_t k) const {
    const StepKind& kind = problem_.kinds[k];
    if (most_[k] < kind.steps.back().batch) {
      return fmt::format("which fit into {}", FormatBytes(kind.memory));
    }
    if (kind.passes == 0) return "the largest measured";
    return kind.passes == 1 ? "the largest that fits"
                            : "the largest in equal passes that fit";
  }

  Nanoseconds Bound(const std::vector<BatchSize>& batches) const {
    Nanoseconds bound{0};
    for (std::size_t g = 0; g < batches.size(); ++g) {
      if (batches[g] == BatchSize(0)) continue;
      bound = std::max(bound, tables_[problem_.gpus[g]].at(batches[g]).time);
    }
    return bound;
  }

  // Plans what the shares use; whether all of it was planned before.
  Result<bool> PlanAll(const std::vector<BatchSize>& batches) {
    bool known = true;
    for (std::size_t g = 0; g < batches.size(); ++g) {
      const Place place(problem_.gpus[g], batches[g]);
      if (batches[g] == BatchSize(0)) continue;
      known = known && tables_[place.first].contains(batches[g]) &&
              !unplanned_.contains(place);
      UCUDNN_RETURN_IF_ERROR(PlanOrBisect(place));
    }
    return known;
  }

  // Absent if a GPU has no step of its share.
  std::optional<StepShares> SharesOf(
      const std::vector<BatchSize>& batches) const {
    StepShares shares;
    for (std::size_t g = 0; g < batches.size(); ++g) {
      GpuStep& gpu = shares.gpus.emplace_back();
      if (batches[g] == BatchSize(0)) continue;
      const Place place(problem_.gpus[g], batches[g]);
      const auto& table = tables_[place.first];
      const auto step = table.find(batches[g]);
      if (step == table.end() || unplanned_.contains(place)) {
        return std::nullopt;
      }
      gpu = step->second;
      gpu.batch = batches[g];
      shares.makespan = std::max(shares.makespan, gpu.time);
    }
    return shares;
  }

  Result<std::optional<StepShares>> Even() {
    const auto even = EvenShares(problem_.batch, problem_.gpus.size());
    for (std::size_t g = 0; g < even.size(); ++g) {
      if (even[g] == BatchSize(0)) continue;
      UCUDNN_RETURN_IF_ERROR(Plan({problem_.gpus[g], even[g]}));
    }
    return SharesOf(even);
  }

  const StepProblem& problem_;
  std::vector<BatchSize> most_;   // of each kind
  std::vector<BatchSize> least_;  // that each of its GPUs must have
  // Of each kind: what batches take or, while they are not planned, at least.
  std::vector<std::map<BatchSize, GpuStep>> tables_;
  std::set<Place> unplanned_;  // recorded steps that do not fit plain
  std::map<std::size_t, Error> least_error_;
  bool cut_off_ = false;
};

}  // namespace

BatchSize LeastBatch(const StepKind& kind) {
  const BatchSize first = kind.steps.front().batch;
  return kind.least == BatchSize(0) ? first : std::min(kind.least, first);
}

BatchSize LargestBatch(const StepKind& kind) {
  const std::int64_t passes = std::max<std::int64_t>(1, kind.passes);
  return BatchSize(kind.steps.back().batch.count() * passes);
}

Status CheckStepKind(const StepKind& kind) {
  if (kind.steps.empty()) {
    return Fail(Code::kInvalidArgument,
                "{}: no step was measured; one or more is accepted", kind.name);
  }
  const MeasuredStep& first = kind.steps.front();
  if (kind.least > first.batch) {
    return Fail(Code::kInvalidArgument,
                "{}: least: {}; up to {}, the first batch of its steps, is "
                "accepted",
                kind.name, kind.least.count(), first.batch.count());
  }
  BatchSize before(0);
  for (const MeasuredStep& step : kind.steps) {
    const auto refuse = [&](std::string_view accepted) {
      return Fail(Code::kInvalidArgument, "{}: batch {}: {}", kind.name,
                  step.batch.count(), accepted);
    };
    if (step.batch <= before) return refuse("rising batches are accepted");
    before = step.batch;
    if (step.recorded.has_value() != first.recorded.has_value()) {
      return refuse("either all steps of a kind are recorded, or none");
    }
    if (!step.recorded) continue;
    if (kind.passes > 1) return refuse("a recorded step is one pass");
    const Result<PlainStep> plain = PlainRecordedStep(*step.recorded);
    if (!plain) return refuse(plain.error().message);
    if (!SameHooks(*first.recorded, *step.recorded)) {
      return refuse(fmt::format(
          "its hooks, tensors and uses are not those of batch {}; steps of the "
          "same operations are accepted",
          first.batch.count()));
    }
  }
  return {};
}

RecordedStep Between(const RecordedStep& from, const RecordedStep& to,
                     double part) {
  RecordedStep step = from;
  for (std::size_t i = 0; i < step.segments.size(); ++i) {
    const RecordedSegment& other = to.segments[i];
    step.segments[i].time = Line(step.segments[i].time, other.time, part);
    step.segments[i].bytes = Line(step.segments[i].bytes, other.bytes, part);
  }
  for (std::size_t i = 0; i < step.tensors.size(); ++i) {
    RecordedTensor& tensor = step.tensors[i];
    const RecordedTensor& other = to.tensors[i];
    tensor.bytes = Line(tensor.bytes, other.bytes, part);
    if (!tensor.recipe) continue;
    RecordedRecipe& recipe = *tensor.recipe;
    recipe.time = Line(recipe.time, other.recipe->time, part);
    recipe.bytes = Line(recipe.bytes, other.recipe->bytes, part);
  }
  return step;
}

void AddGpu(const StepKind& kind, Bytes memory, StepProblem* problem) {
  auto place =
      std::ranges::find_if(problem->kinds, [&](const StepKind& placed) {
        return placed.name == kind.name && placed.memory == memory;
      });
  if (place == problem->kinds.end()) {
    problem->kinds.push_back(kind);
    place = std::prev(problem->kinds.end());
    place->memory = memory;
  }
  problem->gpus.push_back(
      static_cast<std::size_t>(place - problem->kinds.begin()));
}

Result<StepShares> ShareSteps(const StepProblem& problem) {
  if (problem.batch < BatchSize(1) || problem.gpus.empty()) {
    return Fail(Code::kInvalidArgument,
                "a mini-batch of {} for {} GPUs; 1 or more of both is accepted",
                problem.batch.count(), problem.gpus.size());
  }
  BatchSize given(0);
  for (const BatchSize share : problem.shares) given = given + share;
  if (!problem.shares.empty() &&
      (problem.shares.size() != problem.gpus.size() ||
       given != problem.batch)) {
    return Fail(Code::kInvalidArgument,
                "{} shares of {} images; one of each of the {} GPUs, {} images "
                "together, is accepted",
                problem.shares.size(), given.count(), problem.gpus.size(),
                problem.batch.count());
  }
  return ShareSearch(problem).Run();
}

}  // namespace ucudnn
