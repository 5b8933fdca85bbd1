#include "solver/memory/finish.h"

#include <utility>

#include "solver/check/memory_plan.h"
#include "solver/check/validate.h"
#include "solver/limits.h"
#include "solver/memory/placement.h"
#include "solver/memory/round_draft.h"
#include "solver/memory/summary.h"

namespace ucudnn {
namespace {

// kFailedPrecondition if what is resident exceeds the budget.
Status CheckResidents(const MemoryPlan& plan) {
  // Memory managers count in units of up to 512 bytes.
  const Bytes end = EndOf(plan.resident);
  if (end <= plan.budget - Bytes(1024)) return {};
  return Fail(Code::kFailedPrecondition,
              "parameters and inputs alone take {} of the budget of {}",
              HumanBytes(end), HumanBytes(plan.budget));
}

}  // namespace

MemoryPlan NewPlan(const Rounds& rounds, const MemoryRequest& request,
                   Bytes unit) {
  MemoryPlan plan;
  plan.sub_batch = rounds.models.front().batch;
  plan.budget = request.budget;
  plan.alignment = kPlanAlignment;
  plan.gpus = request.gpus;
  plan.resident = PlaceResidents(rounds.models, unit);
  return plan;
}

Result<MemoryPlan> PlanEachRound(const Rounds& rounds,
                                 const MemoryRequest& request, MemoryPlan plan,
                                 const RoundFunction& plan_round) {
  UCUDNN_RETURN_IF_ERROR(CheckResidents(plan));
  for (std::size_t i = 0; i < rounds.models.size(); ++i) {
    UCUDNN_ASSIGN_OR_RETURN(MemoryRound round, plan_round(rounds.models[i]));
    round.count = rounds.counts[i];
    plan.rounds.push_back(std::move(round));
  }
  const TrainingGraph& graph = *rounds.models.front().graph;
  if (request.allocator == MemoryAllocator::kStatic) {
    Limits limits;
    limits.max_nodes = kMostPlacementNodes;
    limits.stop = request.stop;
    UCUDNN_RETURN_IF_ERROR(PlaceStatically(graph, limits, &plan));
  }
  Summarise(graph, &plan);
  if (kSolversCheckThemselves) RequireValid(ValidateMemoryPlan(plan, graph));
  return plan;
}

}  // namespace ucudnn
