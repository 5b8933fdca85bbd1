#include "solver/joint_memory.h"

#include <algorithm>
#include <set>

#include "base/training/costs.h"
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
  for (const JointMemoryKind& kind : problem.kinds) {
    BatchSize before;
    for (const BatchSize share : kind.shares) {
      if (share <= before || share > problem.batch) {
        return Fail(Code::kInvalidArgument,
                    "a share of {} images after one of {}; rising ones up to "
                    "the mini-batch of {} are accepted",
                    share.count(), before.count(), problem.batch.count());
      }
      before = share;
    }
  }
  for (const JointMemoryKind& kind : problem.kinds) {
    if (kind.convolutions.kernels.empty()) continue;
    TrainingGraph graph = kind.graph;
    UCUDNN_RETURN_IF_ERROR(SetConvolutionCosts(kind.convolutions, &graph));
  }
  return {};
}

class JointSearch {
 public:
  explicit JointSearch(const JointMemoryProblem& problem) : problem_(problem) {
    assign_.batch = problem.batch;
    assign_.communication = problem.communication;
    freedom_.offloads_weights = problem.request.offload_weights;
    freedom_.recomputes = problem.request.recompute;
    freedom_.order = MemoryFreedom::Order::kUpdatesAnywhere;
    for (std::size_t k = 0; k < problem.kinds.size(); ++k) {
      assign_.tables.push_back(LeastTimes(k));
    }
    for (const std::size_t kind : problem.gpus) {
      AssignGpu gpu;
      gpu.table = kind;
      assign_.gpus.push_back(std::move(gpu));
    }
  }

  Result<JointMemoryPlan> Run() {
    UCUDNN_RETURN_IF_ERROR(CheckMemory());
    UCUDNN_ASSIGN_OR_RETURN(Assignment best, NextAssignment());
    joint_.least = best.makespan;
    std::optional<Assignment> found;
    for (;;) {
      // Plans that were cut off are not the policy's: their times bound
      // nothing.
      if (!AnyCutOff()) joint_.lower_bound = best.makespan;
      UCUDNN_ASSIGN_OR_RETURN(const bool optimal, PlanAll(&best));
      if (Usable(best) && (!found || best.makespan < found->makespan)) {
        found = std::move(best);
      }
      joint_.cut_off = !optimal && Stopped();
      if (optimal || (joint_.cut_off && found)) break;
      UCUDNN_ASSIGN_OR_RETURN(best, NextAssignment());
    }
    joint_.assignment = *std::move(found);
    joint_.cut_off = joint_.cut_off || AnyCutOff();
    joint_.shares = ExplainShares(assign_, joint_.assignment);
    Compare();
    KeepUsedPlans();
    return std::move(joint_);
  }

 private:
  using Place = std::pair<std::size_t, BatchSize>;  // kind and batch

  std::vector<BatchSize> SharesOf(std::size_t k) const {
    if (!problem_.kinds[k].shares.empty()) return problem_.kinds[k].shares;
    std::vector<BatchSize> shares;
    for (BatchSize batch = problem_.step; batch <= problem_.batch;
         batch = batch + problem_.step) {
      shares.push_back(batch);
    }
    // A step above the mini-batch tells what it would take.
    if (shares.empty()) shares.push_back(problem_.step);
    return shares;
  }

  bool Stopped() const { return problem_.request.stop.stop_requested(); }

  bool AnyCutOff() const {
    return std::ranges::any_of(
        joint_.plans, [](const auto& plan) { return plan.second.cut_off; });
  }

  // Some GPU must have room for the smallest share.
  Status CheckMemory() const {
    Bytes least = Bytes::Max();
    for (const std::size_t k : problem_.gpus) {
      if (!assign_.tables[k].empty()) return {};
      least = std::min(
          least, LowerBoundBytes(AtBatch(problem_.kinds[k], SharesOf(k)[0]),
                                 problem_.request.offload_weights));
    }
    return Fail(Code::kFailedPrecondition,
                "no GPU has the memory for a share of {} images, which takes "
                "{} at least",
                SharesOf(problem_.gpus[0])[0].count(), HumanBytes(least));
  }

  // What a kind's tasks take at least, for all shares that may have a plan.
  std::vector<BatchCost> LeastTimes(std::size_t k) const {
    const JointMemoryKind& kind = problem_.kinds[k];
    MemoryFreedom any = freedom_;
    any.order = MemoryFreedom::Order::kAny;
    std::vector<BatchCost> costs;
    for (const BatchSize batch : SharesOf(k)) {
      const TrainingGraph graph = AtBatch(kind, batch);
      if (LowerBoundBytes(graph, any.offloads_weights) > kind.budget) break;
      costs.push_back({batch, LowerBoundTime(graph, kind.budget, any), Bytes(0),
                       /*at_least=*/true});
    }
    return costs;
  }

  BatchCost& CostOf(const Place& place) {
    std::vector<BatchCost>& table = assign_.tables[place.first];
    return *std::ranges::find(table, place.second, &BatchCost::batch);
  }

  // The best assignment for times of which those that it uses are plans' or
  // full bounds, unless the search is stopped.
  Result<Assignment> NextAssignment() {
    for (;;) {
      UCUDNN_ASSIGN_OR_RETURN(Assignment assignment, SolveAssignment(assign_));
      if (Stopped() || !BoundAll(assignment)) return assignment;
    }
  }

  // Bounds what the assignment uses; whether any of it was not bounded before.
  bool BoundAll(const Assignment& assignment) {
    bool any = false;
    for (std::size_t g = 0; g < problem_.gpus.size(); ++g) {
      const Place place(problem_.gpus[g], assignment.shares[g].batch);
      if (place.second == BatchSize(0) || planned_.contains(place) ||
          !bounded_.insert(place).second) {
        continue;
      }
      any = true;
      const JointMemoryKind& kind = problem_.kinds[place.first];
      Nanoseconds& time = CostOf(place).time;
      time = std::max(time, LowerBoundTime(AtBatch(kind, place.second),
                                           kind.budget, freedom_));
    }
    return any;
  }

  // Plans a share if it was not, and sets its time; removes it if there is no
  // plan.
  Status Plan(const Place& place) {
    if (planned_.contains(place)) return {};
    ++joint_.planned;
    const JointMemoryKind& kind = problem_.kinds[place.first];
    MemoryRequest request = problem_.request;
    request.budget = kind.budget;
    if (problem_.undivided) request.sub_batch = place.second;
    const TrainingGraph graph = AtBatch(kind, place.second);
    Result<MemoryPlan> plan = PlanWithin(graph, request, *problem_.policy);
    BatchCost& cost = CostOf(place);
    planned_[place] = plan.has_value();
    if (!plan) {
      if (plan.error().code != Code::kFailedPrecondition) {
        return tl::unexpected<Error>(std::move(plan).error());
      }
      std::vector<BatchCost>& table = assign_.tables[place.first];
      table.erase(table.begin() + (&cost - table.data()));
      return {};
    }
    if (kSolversCheckThemselves) UCUDNN_CHECK(cost.time <= plan->time);
    cost.time = plan->time;
    cost.at_least = false;
    joint_.plans[place] = *std::move(plan);
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
      known = known && planned_.contains(place);
      UCUDNN_RETURN_IF_ERROR(Plan(place));
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

  // What can be had if all of an iteration must fit at once.
  void Compare() {
    AssignProblem whole = assign_;
    for (std::size_t k = 0; k < problem_.kinds.size(); ++k) {
      whole.tables[k] = WholeTimes(k);
      joint_.whole.push_back(whole.tables[k].empty()
                                 ? BatchSize(0)
                                 : whole.tables[k].back().batch);
    }
    if (Stopped()) {
      // Part of the shares was not looked at.
      joint_.whole.assign(problem_.kinds.size(), BatchSize(0));
      return;
    }
    const Result<Assignment> found = SolveAssignment(whole);
    if (found) joint_.makespan_whole = found->makespan;
  }

  std::vector<BatchCost> WholeTimes(std::size_t k) const {
    const JointMemoryKind& kind = problem_.kinds[k];
    std::vector<BatchCost> costs;
    MemoryRequest request;
    request.budget = kind.budget;
    request.allocator = problem_.request.allocator;
    for (const BatchSize batch : SharesOf(k)) {
      if (Stopped()) break;
      const Result<MemoryPlan> plan =
          PlanBaseline(AtBatch(kind, batch), request);
      if (plan) costs.push_back({batch, plan->time, Bytes(0)});
    }
    return costs;
  }

  void KeepUsedPlans() {
    std::set<Place> used;
    for (std::size_t g = 0; g < problem_.gpus.size(); ++g) {
      used.emplace(problem_.gpus[g], joint_.assignment.shares[g].batch);
    }
    std::erase_if(joint_.plans,
                  [&](const auto& item) { return !used.contains(item.first); });
  }

  const JointMemoryProblem& problem_;
  MemoryFreedom freedom_;
  // Tables have plans' times where there are plans, and bounds elsewhere.
  AssignProblem assign_;
  std::set<Place> bounded_;        // fully
  std::map<Place, bool> planned_;  // whether there is a plan
  JointMemoryPlan joint_;
};

}  // namespace

TrainingGraph AtBatch(const JointMemoryKind& kind, BatchSize batch) {
  TrainingGraph graph = kind.graph;
  graph.batch = batch;
  if (!kind.convolutions.kernels.empty()) {
    // Its names were checked before.
    UCUDNN_CHECK(SetConvolutionCosts(kind.convolutions, &graph).has_value());
  }
  return graph;
}

Result<JointMemoryPlan> SolveJointMemory(const JointMemoryProblem& problem) {
  UCUDNN_RETURN_IF_ERROR(Check(problem));
  return JointSearch(problem).Run();
}

std::string WhyShare(const JointMemoryProblem& problem,
                     const JointMemoryPlan& plan, std::size_t gpu) {
  const ShareExplanation& share = plan.shares[gpu];
  const std::size_t kind = problem.gpus[gpu];
  const BatchSize batch = plan.assignment.shares[gpu].batch;
  std::string why = share.text;
  // Here batches are planned, not measured.
  if (share.binding == Binding::kNothingLarger) {
    why = "no larger batch fits";
  } else if (share.binding == Binding::kLeftNoBatch) {
    why = fmt::format("left out: no batch fits into {}",
                      HumanBytes(problem.kinds[kind].budget));
  }
  const auto memory = plan.plans.find({kind, batch});
  if (memory == plan.plans.end()) return why;
  const MemoryPlan& own = memory->second;
  if (own.offloaded + own.prefetched > Bytes(0)) {
    why += fmt::format("; moves {} to the host and {} back",
                       HumanBytes(own.offloaded), HumanBytes(own.prefetched));
  } else if (own.rounds.size() > 1 || own.rounds.front().count > 1) {
    why += fmt::format("; trains {} at once", own.sub_batch.count());
  }
  const BatchSize whole = plan.whole[kind];
  if (whole > BatchSize(0) && whole < batch) {
    why += fmt::format("; {} would fit whole", whole.count());
  }
  return why;
}

}  // namespace ucudnn
