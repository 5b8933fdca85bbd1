#include "solver/check/validate_assignment.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "solver/check/validate.h"

namespace ucudnn {
namespace {

bool MayUse(const AssignGpu& gpu, const BatchCost& cost) {
  return cost.batch <= gpu.max_batch && cost.memory <= gpu.memory_limit &&
         (gpu.allowed.empty() ||
          std::ranges::find(gpu.allowed, cost.batch) != gpu.allowed.end());
}

// The row of `table` for `batch`; null if there is none.
const BatchCost* Find(const std::vector<BatchCost>& table, BatchSize batch) {
  const auto row = std::ranges::find(table, batch, &BatchCost::batch);
  return row == table.end() ? nullptr : &*row;
}

Status CheckShare(const Share& share, const AssignGpu& gpu,
                  const std::vector<BatchCost>& table) {
  if (share.batch == BatchSize(0)) {
    if (share.time == Nanoseconds(0)) return {};
    return Wrong("left out, but takes {} ns", share.time.count());
  }
  const BatchCost* row = Find(table, share.batch);
  if (row == nullptr || row->time != share.time) {
    return Wrong("batch {} in {} ns was not measured", share.batch.count(),
                 share.time.count());
  }
  if (!MayUse(gpu, *row)) {
    return Wrong("batch {} is not within its limits", share.batch.count());
  }
  return {};
}

// Whether the figures of `assignment` follow from its shares.
Status CheckSums(const Assignment& assignment, BatchSize batch,
                 std::span<const Nanoseconds> communication) {
  std::int64_t images = 0;
  std::int64_t used = 0;
  Nanoseconds slowest{0};
  Nanoseconds total{0};
  for (const Share& share : assignment.shares) {
    images += share.batch.count();
    used += share.batch > BatchSize(0) ? 1 : 0;
    slowest = std::max(slowest, share.time);
    total += share.time;
  }
  if (images != batch.count()) {
    return Wrong("the shares sum to {}, not to {}", images, batch.count());
  }
  if (used != assignment.gpus_used) {
    return Wrong("{} GPUs take part, not {}", used, assignment.gpus_used);
  }
  if (total != assignment.total_time) {
    return Wrong("the GPUs take {} ns in all, not {} ns", total.count(),
                 assignment.total_time.count());
  }
  const Nanoseconds extra =
      communication.empty() ? Nanoseconds(0)
                            : communication[static_cast<std::size_t>(used) - 1];
  if (extra != assignment.communication) {
    return Wrong("{} GPUs communicate for {} ns, not {} ns", used,
                 extra.count(), assignment.communication.count());
  }
  if (slowest + extra != assignment.makespan) {
    return Wrong("the makespan is {} ns, not {} ns", (slowest + extra).count(),
                 assignment.makespan.count());
  }
  if (assignment.lower_bound != assignment.makespan) {
    return Wrong("the bound is {} ns, the makespan {} ns",
                 assignment.lower_bound.count(), assignment.makespan.count());
  }
  return {};
}

std::optional<Nanoseconds> EvenSplitOf(const AssignProblem& problem) {
  const std::int64_t gpus = std::ssize(problem.gpus);
  if (gpus == 0 || problem.batch.count() % gpus != 0) return std::nullopt;
  const BatchSize each(problem.batch.count() / gpus);
  Nanoseconds slowest{0};
  for (const AssignGpu& gpu : problem.gpus) {
    const BatchCost* row = Find(problem.tables[gpu.table], each);
    if (row == nullptr || !MayUse(gpu, *row)) return std::nullopt;
    slowest = std::max(slowest, row->time);
  }
  if (problem.communication.empty()) return slowest;
  return slowest + problem.communication[problem.gpus.size() - 1];
}

// The rows of a table that decide what limits a GPU's share.
struct Alternatives {
  const BatchCost* larger = nullptr;       // the next larger one it may use
  const BatchCost* larger_fits = nullptr;  // the next such one that is no
                                           // slower than the slowest GPU
  bool larger_measured = false;            // whether it may use it or not
  bool any_measured = false;
  const BatchCost* fastest = nullptr;  // of all that it may use
};

Alternatives Look(const std::vector<BatchCost>& table, const AssignGpu& gpu,
                  BatchSize share, BatchSize batch, Nanoseconds slowest) {
  Alternatives found;
  for (const BatchCost& cost : table) {  // by rising batch
    if (cost.batch > batch) break;
    found.any_measured = true;
    const bool larger = cost.batch > share;
    found.larger_measured = found.larger_measured || larger;
    if (!MayUse(gpu, cost)) continue;
    if (found.fastest == nullptr || cost.time < found.fastest->time) {
      found.fastest = &cost;
    }
    if (!larger) continue;
    if (found.larger == nullptr) found.larger = &cost;
    if (found.larger_fits == nullptr && cost.time <= slowest) {
      found.larger_fits = &cost;
    }
  }
  return found;
}

// The binding constraint of a GPU that takes part, and of one left out.
Binding BindingOfShare(const Alternatives& found, Nanoseconds time,
                       Nanoseconds slowest) {
  if (time == slowest) return Binding::kSlowest;
  if (found.larger_fits != nullptr) return Binding::kSumReached;
  if (found.larger != nullptr) return Binding::kNextTooSlow;
  return found.larger_measured ? Binding::kLimits : Binding::kNothingLarger;
}

Binding BindingOfNone(const Alternatives& found, Nanoseconds slowest) {
  if (!found.any_measured) return Binding::kLeftNoBatch;
  if (found.fastest == nullptr) return Binding::kLeftLimits;
  return found.fastest->time > slowest ? Binding::kLeftTooSlow
                                       : Binding::kLeftNotNeeded;
}

Status CheckExplanation(const ShareExplanation& explanation, const Share& share,
                        const AssignGpu& gpu,
                        const std::vector<BatchCost>& table, BatchSize batch,
                        Nanoseconds slowest) {
  const Alternatives found = Look(table, gpu, share.batch, batch, slowest);
  const Binding expected = share.batch == BatchSize(0)
                               ? BindingOfNone(found, slowest)
                               : BindingOfShare(found, share.time, slowest);
  if (explanation.binding != expected) {
    return Wrong("held by {}, not by {}", Name(expected),
                 Name(explanation.binding));
  }
  const BatchCost* other = nullptr;
  if (expected == Binding::kNextTooSlow) other = found.larger;
  if (expected == Binding::kSumReached) other = found.larger_fits;
  if (expected == Binding::kLeftTooSlow) other = found.fastest;
  if (other != nullptr && explanation.other != *other) {
    return Wrong("refers to batch {}, not to {}",
                 explanation.other.batch.count(), other->batch.count());
  }
  if (explanation.text.empty()) return Wrong("has no text");
  return {};
}

Status OfGpu(std::size_t gpu, Status status) {
  if (status) return status;
  return Within(fmt::format("GPU {}", gpu), std::move(status).error());
}

// Checks the plan of one GPU of a joint plan, and the time made of it.
Status CheckJointShare(const Share& share,
                       const std::optional<SharedValue<WorkspacePlan>>& made,
                       const JointGpu& gpu, const JointProblem& problem) {
  const WorkspacePlan* plan = made ? &**made : nullptr;
  if (share.batch == BatchSize(0)) {
    if (plan == nullptr && share.time == Nanoseconds(0)) return {};
    return Wrong("left out, but has a plan or a time");
  }
  const JointKind& kind = problem.kinds[gpu.kind];
  if (plan == nullptr || plan->batch != share.batch) {
    return Wrong("has no plan for batch {}", share.batch.count());
  }
  if (plan->workspace_limit != kind.workspace_limit) {
    return Wrong("planned for {} bytes, not {}", plan->workspace_limit.count(),
                 kind.workspace_limit.count());
  }
  if (share.batch > gpu.max_batch) {
    return Wrong("batch {} is larger than {}", share.batch.count(),
                 gpu.max_batch.count());
  }
  if (!problem.shares.empty() &&
      std::ranges::find(problem.shares, share.batch) == problem.shares.end()) {
    return Wrong("batch {} was not to be considered", share.batch.count());
  }
  std::vector<ConcurrentPair> pairs;
  if (kind.concurrency) pairs = ConcurrentPairs(*kind.concurrency);
  UCUDNN_RETURN_IF_ERROR(ValidatePlan(
      *plan, kind.kernels,
      {kind.concurrency ? WorkspaceMode::kShared : WorkspaceMode::kReuse,
       kind.policy, pairs}));
  Nanoseconds time =
      plan->total_time + kind.fixed + kind.per_image * share.batch.count();
  if (!kind.others.empty()) {
    time += kind.others.at(static_cast<std::size_t>(share.batch.count()));
  }
  if (time != share.time) {
    return Wrong("its plan and the rest take {} ns, not {} ns", time.count(),
                 share.time.count());
  }
  return {};
}

}  // namespace

Status ValidateAssignment(const Assignment& assignment,
                          const AssignProblem& problem) {
  if (assignment.shares.size() != problem.gpus.size()) {
    return Wrong("{} shares for {} GPUs", assignment.shares.size(),
                 problem.gpus.size());
  }
  for (std::size_t g = 0; g < problem.gpus.size(); ++g) {
    const AssignGpu& gpu = problem.gpus[g];
    UCUDNN_RETURN_IF_ERROR(OfGpu(
        g, CheckShare(assignment.shares[g], gpu, problem.tables[gpu.table])));
  }
  UCUDNN_RETURN_IF_ERROR(
      CheckSums(assignment, problem.batch, problem.communication));
  const std::optional<Nanoseconds> even = EvenSplitOf(problem);
  if (even.has_value() && *even < assignment.makespan) {
    return Wrong("{} ns, but {} ns evenly split", assignment.makespan.count(),
                 even->count());
  }
  return {};
}

Status ValidateEvenSplit(const std::optional<Nanoseconds>& even,
                         const AssignProblem& problem) {
  const std::optional<Nanoseconds> expected = EvenSplitOf(problem);
  if (even == expected) return {};
  const Nanoseconds none(-1);
  return Wrong("the even split takes {} ns, not {} ns",
               expected.value_or(none).count(), even.value_or(none).count());
}

Status ValidateExplanations(std::span<const ShareExplanation> explanations,
                            const Assignment& assignment,
                            const AssignProblem& problem) {
  if (explanations.size() != problem.gpus.size()) {
    return Wrong("{} explanations for {} GPUs", explanations.size(),
                 problem.gpus.size());
  }
  const Nanoseconds slowest = assignment.makespan - assignment.communication;
  for (std::size_t g = 0; g < problem.gpus.size(); ++g) {
    const AssignGpu& gpu = problem.gpus[g];
    UCUDNN_RETURN_IF_ERROR(OfGpu(
        g,
        CheckExplanation(explanations[g], assignment.shares[g], gpu,
                         problem.tables[gpu.table], problem.batch, slowest)));
  }
  return {};
}

Status ValidateGains(std::span<const MarginalGain> gains,
                     const Assignment& assignment,
                     const AssignProblem& problem) {
  std::vector<std::size_t> firsts;
  for (std::size_t g = 0; g < problem.gpus.size(); ++g) {
    const bool known = std::ranges::any_of(firsts, [&](std::size_t first) {
      return problem.gpus[first] == problem.gpus[g];
    });
    if (!known) firsts.push_back(g);
  }
  const bool unknown = !problem.communication.empty() &&
                       problem.communication.size() <= problem.gpus.size();
  if (gains.size() != (unknown ? 0 : firsts.size())) {
    return Wrong("{} gains for {} kinds of GPUs", gains.size(), firsts.size());
  }
  for (std::size_t k = 0; k < gains.size(); ++k) {
    if (gains[k].gpu != firsts[k]) {
      return Wrong("gain {} is of GPU {}, not of {}", k, firsts[k],
                   gains[k].gpu);
    }
    if (gains[k].gain < Nanoseconds(0) ||
        gains[k].makespan + gains[k].gain != assignment.makespan) {
      return Wrong(
          "one more of GPU {} takes {} ns and gains "
          "{} ns of {} ns",
          gains[k].gpu, gains[k].makespan.count(), gains[k].gain.count(),
          assignment.makespan.count());
    }
  }
  return {};
}

Status ValidateJoint(const JointPlan& joint, const JointProblem& problem) {
  const auto& shares = joint.assignment.shares;
  if (shares.size() != problem.gpus.size() ||
      joint.plans.size() != problem.gpus.size()) {
    return Wrong("{} shares and {} plans for {} GPUs", shares.size(),
                 joint.plans.size(), problem.gpus.size());
  }
  for (std::size_t g = 0; g < problem.gpus.size(); ++g) {
    UCUDNN_RETURN_IF_ERROR(OfGpu(g, CheckJointShare(shares[g], joint.plans[g],
                                                    problem.gpus[g], problem)));
  }
  return CheckSums(joint.assignment, problem.batch, problem.communication);
}

}  // namespace ucudnn
