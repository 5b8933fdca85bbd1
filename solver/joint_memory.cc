#include "solver/joint_memory.h"

#include <algorithm>

#include "solver/check/memory_plan.h"
#include "solver/check/validate.h"
#include "solver/memory/bounds.h"
#include "solver/memory/vdnn.h"

namespace ucudnn {
namespace {

Status Check(const JointMemoryProblem& problem) {
  if (problem.batch < BatchSize(1) || problem.batch > kMaxBatchSize) {
    return Fail(Code::kInvalidArgument,
                "the mini-batch is {}; 1 to {} is accepted",
                problem.batch.count(), kMaxBatchSize.count());
  }
  if (problem.step < BatchSize(1)) {
    return Fail(Code::kInvalidArgument,
                "shares are multiples of {}; 1 or more is accepted",
                problem.step.count());
  }
  if (problem.gpus.empty()) {
    return Fail(Code::kInvalidArgument, "there is no GPU");
  }
  for (const std::size_t kind : problem.gpus) {
    if (kind < problem.kinds.size()) continue;
    return Fail(Code::kInvalidArgument, "a GPU is of kind {}; there are {}",
                kind, problem.kinds.size());
  }
  for (const JointMemoryKind& kind : problem.kinds) {
    if (kind.budget >= Bytes(1)) continue;
    return Fail(Code::kInvalidArgument,
                "the budget is {} bytes; 1 or more is accepted",
                kind.budget.count());
  }
  return {};
}

class JointSearch {
 public:
  explicit JointSearch(const JointMemoryProblem& problem) : problem_(problem) {
    assign_.batch = problem.batch;
    assign_.communication = problem.communication;
    for (const JointMemoryKind& kind : problem.kinds) {
      assign_.tables.push_back(LeastTimes(kind));
    }
    for (const std::size_t kind : problem.gpus) {
      AssignGpu gpu;
      gpu.table = kind;
      assign_.gpus.push_back(std::move(gpu));
    }
  }

  Result<JointMemoryPlan> Run() {
    UCUDNN_RETURN_IF_ERROR(CheckMemory());
    std::optional<Assignment> found;
    bool optimal = false;
    while (!optimal && !problem_.request.stop.stop_requested()) {
      UCUDNN_ASSIGN_OR_RETURN(Assignment assignment, SolveAssignment(assign_));
      joint_.lower_bound = assignment.makespan;
      UCUDNN_ASSIGN_OR_RETURN(optimal, PlanAll(&assignment));
      if (Usable(assignment) &&
          (!found || assignment.makespan < found->makespan)) {
        found = std::move(assignment);
      }
    }
    if (!found) {
      return Fail(Code::kCancelled,
                  "the search was ended before any assignment was planned");
    }
    joint_.assignment = *std::move(found);
    UCUDNN_RETURN_IF_ERROR(Explain());
    Compare();
    joint_.cut_off = problem_.request.stop.stop_requested();
    if (joint_.cut_off) ForgetComparison();
    KeepUsedPlans();
    return std::move(joint_);
  }

 private:
  using Place = std::pair<std::size_t, BatchSize>;  // kind and batch

  // Some GPU must have room for the smallest share.
  Status CheckMemory() const {
    Bytes least = Bytes::Max();
    for (const std::size_t k : problem_.gpus) {
      if (!assign_.tables[k].empty()) return {};
      least = std::min(
          least,
          LowerBoundBytes(AtBatch(problem_.kinds[k].graph, problem_.step),
                          problem_.request.offload_weights));
    }
    return Fail(Code::kFailedPrecondition,
                "no GPU has the memory for a share of {} images, which takes "
                "{} at least",
                problem_.step.count(), HumanBytes(least));
  }

  // The bounds of a kind's shares, of those that have one.
  std::vector<BatchCost> LeastTimes(const JointMemoryKind& kind) const {
    MemoryFreedom freedom;
    freedom.offloads_weights = problem_.request.offload_weights;
    freedom.recomputes = problem_.request.recompute;
    freedom.order = MemoryFreedom::Order::kUpdatesAnywhere;
    std::vector<BatchCost> costs;
    TrainingGraph graph = kind.graph;
    for (BatchSize batch = problem_.step; batch <= problem_.batch;
         batch = batch + problem_.step) {
      graph.batch = batch;
      if (LowerBoundBytes(graph, freedom.offloads_weights) > kind.budget) break;
      costs.push_back(
          {batch, LowerBoundTime(graph, kind.budget, freedom), Bytes(0)});
    }
    return costs;
  }

  // Plans a share if it was not, and sets its time; removes it if there is no
  // plan.
  Status Plan(std::size_t kind, BatchSize batch) {
    if (planned_.count({kind, batch}) > 0) return {};
    ++joint_.planned;
    MemoryRequest request = problem_.request;
    request.budget = problem_.kinds[kind].budget;
    const TrainingGraph graph = AtBatch(problem_.kinds[kind].graph, batch);
    Result<MemoryPlan> plan = problem_.policy->plan(graph, request);
    std::vector<BatchCost>& table = assign_.tables[kind];
    const auto cost =
        std::find_if(table.begin(), table.end(),
                     [&](const BatchCost& c) { return c.batch == batch; });
    if (!plan) {
      if (plan.error().code != Code::kFailedPrecondition) {
        return tl::unexpected<Error>(std::move(plan).error());
      }
      table.erase(cost);
      planned_[{kind, batch}] = false;
      return {};
    }
    plan->policy = problem_.policy->name;
    SetBounds(graph, request, &*plan);
    if (kSolversCheckThemselves) RequireValid(ValidateMemoryPlan(*plan, graph));
    if (kSolversCheckThemselves) UCUDNN_CHECK(cost->time <= plan->time);
    cost->time = plan->time;
    planned_[{kind, batch}] = true;
    joint_.plans[{kind, batch}] = *std::move(plan);
    return {};
  }

  // Plans what the assignment uses and sets its times; whether all of it was
  // planned before.
  Result<bool> PlanAll(Assignment* assignment) {
    bool known = true;
    Nanoseconds slowest{0};
    for (std::size_t g = 0; g < problem_.gpus.size(); ++g) {
      Share& share = assignment->shares[g];
      if (share.batch == BatchSize(0)) continue;
      const Place place(problem_.gpus[g], share.batch);
      known = known && planned_.count(place) > 0;
      UCUDNN_RETURN_IF_ERROR(Plan(place.first, place.second));
      if (planned_[place]) share.time = joint_.plans.at(place).time;
      slowest = std::max(slowest, share.time);
    }
    assignment->makespan = slowest + assignment->communication;
    return known;
  }

  bool Usable(const Assignment& assignment) const {
    for (std::size_t g = 0; g < problem_.gpus.size(); ++g) {
      const BatchSize batch = assignment.shares[g].batch;
      if (batch != BatchSize(0) && !planned_.at({problem_.gpus[g], batch})) {
        return false;
      }
    }
    return true;
  }

  // The texts name other batches' times: these are planned, too.
  Status Explain() {
    for (bool planned = true; planned;) {
      planned = false;
      joint_.shares = ExplainShares(assign_, joint_.assignment);
      for (std::size_t g = 0; g < problem_.gpus.size(); ++g) {
        const Place other(problem_.gpus[g], joint_.shares[g].other.batch);
        if (other.second == BatchSize(0) || planned_.count(other) > 0) continue;
        if (problem_.request.stop.stop_requested()) return {};
        UCUDNN_RETURN_IF_ERROR(Plan(other.first, other.second));
        planned = true;
      }
    }
    return {};
  }

  // What can be had if all of an iteration must fit at once.
  void Compare() {
    AssignProblem whole = assign_;
    for (std::size_t k = 0; k < problem_.kinds.size(); ++k) {
      whole.tables[k] = WholeTimes(problem_.kinds[k]);
      joint_.whole.push_back(whole.tables[k].empty()
                                 ? BatchSize(0)
                                 : whole.tables[k].back().batch);
    }
    const Result<Assignment> found = SolveAssignment(whole);
    if (found) joint_.makespan_whole = found->makespan;
  }

  // What was compared with part of the shares.
  void ForgetComparison() {
    joint_.whole.assign(problem_.kinds.size(), BatchSize(0));
    joint_.makespan_whole.reset();
  }

  std::vector<BatchCost> WholeTimes(const JointMemoryKind& kind) const {
    std::vector<BatchCost> costs;
    MemoryRequest request;
    request.budget = kind.budget;
    request.allocator = problem_.request.allocator;
    for (BatchSize batch = problem_.step;
         batch <= problem_.batch && !problem_.request.stop.stop_requested();
         batch = batch + problem_.step) {
      const Result<MemoryPlan> plan =
          PlanBaseline(AtBatch(kind.graph, batch), request);
      if (plan) costs.push_back({batch, plan->time, Bytes(0)});
    }
    return costs;
  }

  void KeepUsedPlans() {
    std::erase_if(joint_.plans, [&](const auto& item) {
      for (std::size_t g = 0; g < problem_.gpus.size(); ++g) {
        if (item.first ==
            Place(problem_.gpus[g], joint_.assignment.shares[g].batch)) {
          return false;
        }
      }
      return true;
    });
  }

  const JointMemoryProblem& problem_;
  // Tables have plans' times where there are plans, and bounds elsewhere.
  AssignProblem assign_;
  std::map<Place, bool> planned_;  // whether there is a plan
  JointMemoryPlan joint_;
};

}  // namespace

TrainingGraph AtBatch(TrainingGraph graph, BatchSize batch) {
  graph.batch = batch;
  return graph;
}

Result<JointMemoryPlan> SolveJointMemory(const JointMemoryProblem& problem) {
  UCUDNN_RETURN_IF_ERROR(Check(problem));
  return JointSearch(problem).Run();
}

}  // namespace ucudnn
