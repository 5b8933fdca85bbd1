#include "solver/assign/explain.h"

#include <algorithm>
#include <array>
#include <utility>

#include "solver/assign/kinds.h"
#include "solver/assign/reach.h"
#include "solver/check/validate.h"
#include "solver/check/validate_assignment.h"

namespace ucudnn {
namespace {

using assign_internal::GpuKind;
using assign_internal::Reach;

// "takes 1.2 s", or at least that.
std::string TakesText(const BatchCost& cost) {
  return fmt::format("{}, takes {}{}", cost.batch.count(),
                     cost.at_least ? "at least " : "", HumanTime(cost.time));
}

ShareExplanation ExplainLeftOut(const std::vector<BatchCost>& table,
                                const GpuKind& kind, BatchSize batch,
                                Nanoseconds slowest) {
  if (kind.costs.empty()) {
    if (table.empty() || table.front().batch > batch) {
      return {Binding::kLeftNoBatch,
              {},
              fmt::format("left out: no batch up to {} was measured",
                          batch.count())};
    }
    return {Binding::kLeftLimits,
            {},
            "left out: every measured batch exceeds its limits"};
  }
  const auto fastest =
      std::ranges::min_element(kind.costs, {}, &BatchCost::time);
  if (fastest->time > slowest) {
    return {Binding::kLeftTooSlow, *fastest,
            "left out: its fastest batch, " + TakesText(*fastest)};
  }
  return {Binding::kLeftNotNeeded,
          {},
          "left out: the makespan is reached without it"};
}

ShareExplanation ExplainShare(const std::vector<BatchCost>& table,
                              const GpuKind& kind, const Share& share,
                              BatchSize batch, Nanoseconds slowest) {
  const auto next =
      std::ranges::upper_bound(kind.costs, share.batch, {}, &BatchCost::batch);
  const auto measured =
      std::ranges::upper_bound(table, share.batch, {}, &BatchCost::batch);
  const auto fitting =
      std::find_if(next, kind.costs.end(),
                   [&](const BatchCost& cost) { return cost.time <= slowest; });
  const std::string next_text = next == kind.costs.end()
                                    ? std::string()
                                    : "its next batch, " + TakesText(*next);
  ShareExplanation explanation;
  if (next != kind.costs.end()) explanation.other = *next;
  if (share.time == slowest) {
    explanation.binding = Binding::kSlowest;
    explanation.text = next_text.empty() ? std::string("the slowest")
                                         : "the slowest; " + next_text;
  } else if (fitting != kind.costs.end()) {
    explanation.binding = Binding::kSumReached;
    explanation.other = *fitting;
    explanation.text =
        fmt::format("could take {} in {}{}, but the batches already sum to {}",
                    fitting->batch.count(), HumanTime(fitting->time),
                    fitting->at_least ? " or more" : "", batch.count());
  } else if (next != kind.costs.end()) {
    explanation.binding = Binding::kNextTooSlow;
    explanation.text = next_text;
  } else if (measured != table.end() && measured->batch <= batch) {
    explanation.binding = Binding::kLimits;
    explanation.text = "larger batches exceed its limits";
  } else {
    explanation.binding = Binding::kNothingLarger;
    explanation.text = "no larger batch was measured";
  }
  return explanation;
}

}  // namespace

std::string_view Name(Binding binding) {
  constexpr std::array<std::string_view, 9> kNames = {
      "slowest",       "next_too_slow", "nothing_larger",
      "limits",        "sum_reached",   "left_too_slow",
      "left_no_batch", "left_limits",   "left_not_needed"};
  return kNames[static_cast<std::size_t>(binding)];
}

std::vector<ShareExplanation> ExplainShares(const AssignProblem& problem,
                                            const Assignment& assignment) {
  const auto kinds = assign_internal::MakeKinds(problem, problem.batch);
  UCUDNN_CHECK(kinds.has_value() &&
               assignment.shares.size() == problem.gpus.size());
  const Nanoseconds slowest = assignment.makespan - assignment.communication;
  std::vector<ShareExplanation> explanations(problem.gpus.size());
  for (const GpuKind& kind : *kinds) {
    const auto& table = problem.tables[problem.gpus[kind.gpus[0]].table];
    for (const std::size_t g : kind.gpus) {
      const Share& share = assignment.shares[g];
      explanations[g] =
          share.batch == BatchSize(0)
              ? ExplainLeftOut(table, kind, problem.batch, slowest)
              : ExplainShare(table, kind, share, problem.batch, slowest);
    }
  }
  if (kSolversCheckThemselves)
    RequireValid(ValidateExplanations(explanations, assignment, problem));
  return explanations;
}

Result<std::vector<MarginalGain>> MarginalGains(const AssignProblem& problem,
                                                const Assignment& assignment,
                                                const Limits& limits) {
  UCUDNN_ASSIGN_OR_RETURN(std::vector<GpuKind> kinds,
                          assign_internal::MakeKinds(problem, problem.batch));
  std::vector<MarginalGain> gains;
  const bool communicates = !problem.communication.empty();
  if (communicates && problem.communication.size() <= problem.gpus.size()) {
    return gains;
  }
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const std::size_t gpu = kinds[k].gpus[0];
    Nanoseconds makespan{0};
    if (communicates) {
      AssignProblem larger = problem;
      larger.gpus.push_back(problem.gpus[gpu]);
      UCUDNN_ASSIGN_OR_RETURN(const Assignment more,
                              SolveAssignment(larger, limits));
      makespan = more.makespan;
    } else {
      kinds[k].gpus.push_back(problem.gpus.size());
      UCUDNN_ASSIGN_OR_RETURN(
          const auto time,
          Reach(kinds, problem.batch.count()).LeastTime(limits.stop));
      kinds[k].gpus.pop_back();
      UCUDNN_CHECK(time.has_value());
      makespan = Nanoseconds(*time);
    }
    gains.push_back({gpu, makespan, assignment.makespan - makespan});
  }
  if (kSolversCheckThemselves)
    RequireValid(ValidateGains(gains, assignment, problem));
  return gains;
}

}  // namespace ucudnn
