#include "solver/memory/modnn/modnn.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "solver/memory/bounds.h"
#include "solver/memory/finish.h"
#include "solver/memory/modnn/schedule.h"
#include "solver/memory/modnn/sub_batch.h"
#include "solver/memory/round_model.h"

namespace ucudnn {
namespace {

// Weights are updated after everything else (3.2).
void RunUpdatesLast(RoundModel* round) {
  std::vector<std::size_t> tasks = round->tasks;
  std::stable_partition(tasks.begin(), tasks.end(), [&](std::size_t task) {
    return !IsUpdate(round->graph->tasks[task].kind);
  });
  SetOrder(std::move(tasks), round);
}

// Gradients of weights stay on the device (3.2). Where they are not resident
// anyway, puts them between the weights and the inputs, which leave.
std::vector<ResidentBlock> PlaceGradients(
    const RoundModel& round, std::vector<ResidentBlock>* resident) {
  const auto first_input = std::ranges::find_if(
      *resident,
      [&](const ResidentBlock& r) { return round.IsInput(r.block); });
  if (first_input == resident->end()) return {};
  const Bytes begin = first_input->range.offset;
  Bytes end = begin;
  std::vector<ResidentBlock> gradients;
  for (std::size_t i = 0; i < round.size.size(); ++i) {
    const bool gradient =
        round.graph->blocks[i].kind == BlockKind::kWeightGradient;
    if (!gradient || round.persistent[i]) continue;
    gradients.push_back({i, {end, round.size[i]}});
    end += Aligned(round.size[i]);
  }
  for (auto input = first_input; input != resident->end(); ++input) {
    input->range.offset += end - begin;
  }
  return gradients;
}

Result<MemoryPlan> PlanRounds(const TrainingGraph& graph,
                              const MemoryRequest& request,
                              BatchSize sub_batch) {
  UCUDNN_ASSIGN_OR_RETURN(Rounds rounds, ModelRounds(graph, sub_batch));
  MemoryPlan plan = NewPlan(rounds, request, kPlanAlignment);
  ModnnRoundOptions options;
  options.budget = request.budget;
  options.gradients = PlaceGradients(rounds.models.back(), &plan.resident);
  options.residents = plan.resident;
  options.placed = request.allocator == MemoryAllocator::kPolicy;
  for (RoundModel& round : rounds.models) RunUpdatesLast(&round);
  return PlanEachRound(rounds, request, std::move(plan),
                       [&](const RoundModel& round) {
                         return ScheduleModnnRound(round, options);
                       });
}

// No task waits or runs slower than it could, so sub-batches can save nothing.
bool NoTimeIsLost(const MemoryPlan& plan, const TrainingGraph& graph) {
  Nanoseconds computed{0};
  for (const MemoryEvent& event : plan.rounds.front().events) {
    if (event.op == EventOp::kCompute &&
        event.stream == MemoryStream::kCompute) {
      computed = std::max(computed, event.end());
    }
  }
  return computed == IdealTime(graph);
}

}  // namespace

Result<MemoryPlan> PlanModnn(const TrainingGraph& graph,
                             const MemoryRequest& request) {
  if (request.sub_batch) return PlanRounds(graph, request, *request.sub_batch);
  Result<MemoryPlan> whole = PlanRounds(graph, request, graph.batch);
  if (whole && NoTimeIsLost(*whole, graph)) return whole;
  UCUDNN_ASSIGN_OR_RETURN(const ModnnSubBatch sub_batch,
                          ChooseModnnSubBatch(graph, request.budget));
  UCUDNN_ASSIGN_OR_RETURN(MemoryPlan plan,
                          PlanRounds(graph, request, sub_batch.chosen));
  plan.choice = fmt::format("largest by (8): {}", sub_batch.largest.count());
  return plan;
}

}  // namespace ucudnn
