#include "client/train/share_search.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "client/train/estimates.h"
#include "solver/assign/assign.h"
#include "solver/memory/least_time.h"

namespace ucudnn::train {
namespace {

// The sum of its tasks' least times at each batch, on the line where the batch
// was not measured.
std::map<BatchSize, double> LeastTimes(const JointMemoryKind& kind,
                                       const std::vector<BatchSize>& batches) {
  TrainingGraph graph = kind.graph;
  EstimateTasks(batches, &graph);
  const LeastCosts costs(graph, kind.budget, true);
  std::map<BatchSize, double> times;
  for (const BatchSize batch : batches) {
    double& time = times[batch];
    for (std::size_t task = 0; task < graph.tasks.size(); ++task) {
      time += costs.FastestAt(task, batch);
    }
  }
  return times;
}

}  // namespace

BatchSize ShareStep(BatchSize batch, int ranks) {
  constexpr std::int64_t kFewest = 32;
  std::int64_t parts = std::max<std::int64_t>(kFewest, ranks);
  while (parts < batch.count() && batch.count() % parts != 0) ++parts;
  return BatchSize(std::max<std::int64_t>(batch.count() / parts, 1));
}

BatchSize FinerStep(BatchSize step) {
  for (std::int64_t parts = 4; parts < step.count(); ++parts) {
    if (step.count() % parts == 0) return BatchSize(step.count() / parts);
  }
  return BatchSize(1);
}

std::vector<BatchSize> FirstBatches(BatchSize batch, BatchSize step) {
  std::vector<BatchSize> batches = {step};
  while (16 * batches.back().count() <= batch.count()) {
    batches.push_back(batches.back() + batches.back());
  }
  return batches;
}

std::vector<BatchSize> WithParts(BatchSize share, BatchSize step) {
  std::vector<BatchSize> batches;
  for (BatchSize part = step; part < share; part = part + part) {
    batches.push_back(part);
  }
  batches.push_back(share);
  return batches;
}

Result<Wanted> MissingOf(const JointMemoryProblem& measured) {
  JointMemoryProblem problem = measured;
  std::vector<BatchSize> shares;
  for (BatchSize share = problem.step; share <= problem.batch;
       share = share + problem.step) {
    shares.push_back(share);
  }
  for (JointMemoryKind& kind : problem.kinds) {
    kind.shares.clear();
    EstimateTasks(shares, &kind.graph);
  }
  UCUDNN_ASSIGN_OR_RETURN(const JointMemoryPlan solved,
                          SolveJointMemory(problem));
  Wanted wanted(problem.kinds.size());
  for (std::size_t g = 0; g < problem.gpus.size(); ++g) {
    const BatchSize share = solved.assignment.shares[g].batch;
    const std::size_t kind = problem.gpus[g];
    if (share == BatchSize(0) ||
        std::ranges::binary_search(measured.kinds[kind].shares, share)) {
      continue;
    }
    const std::vector<BatchSize> parts = WithParts(share, problem.step);
    wanted[kind].insert(parts.begin(), parts.end());
    if (share > problem.step) wanted[kind].insert(share - problem.step);
    if (share < problem.batch) wanted[kind].insert(share + problem.step);
  }
  return wanted;
}

Wanted FinerOf(const JointMemoryProblem& problem,
               const JointMemoryPlan& solved) {
  Wanted wanted(problem.kinds.size());
  const BatchSize fine = FinerStep(problem.step);
  if (fine == problem.step || solved.cut_off) return wanted;
  AssignProblem finer;
  finer.batch = problem.batch;
  std::vector<std::set<BatchSize>> near(problem.kinds.size());
  std::vector<double> slower(problem.kinds.size(), 1);
  for (std::size_t g = 0; g < problem.gpus.size(); ++g) {
    const std::size_t kind = problem.gpus[g];
    const BatchSize share = solved.assignment.shares[g].batch;
    if (share == BatchSize(0)) continue;
    const double planned =
        static_cast<double>(solved.plans.at({kind, share}).time.count());
    slower[kind] =
        std::max(slower[kind],
                 planned / LeastTimes(problem.kinds[kind], {share}).at(share));
    for (std::int64_t b = share.count() - problem.step.count() + fine.count();
         b < share.count() + problem.step.count(); b += fine.count()) {
      if (b > 0 && b <= problem.batch.count()) near[kind].emplace(b);
    }
  }
  for (std::size_t k = 0; k < problem.kinds.size(); ++k) {
    std::vector<BatchCost>& table = finer.tables.emplace_back();
    for (const auto& [batch, time] :
         LeastTimes(problem.kinds[k], {near[k].begin(), near[k].end()})) {
      if (time == kNever) continue;
      BatchCost& cost = table.emplace_back();
      cost.batch = batch;
      cost.time = Nanoseconds(std::llround(time * slower[k]));
    }
  }
  for (const std::size_t kind : problem.gpus) {
    finer.gpus.emplace_back().table = kind;
  }
  const Result<Assignment> best = SolveAssignment(finer);
  const Nanoseconds enough = solved.assignment.makespan * 995 / 1000;
  if (!best || best->makespan > enough) return wanted;
  for (std::size_t g = 0; g < problem.gpus.size(); ++g) {
    const BatchSize share = best->shares[g].batch;
    const std::size_t kind = problem.gpus[g];
    if (share == BatchSize(0)) continue;
    const std::vector<BatchSize> parts = WithParts(share, problem.step);
    wanted[kind].insert(parts.begin(), parts.end());
  }
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const std::vector<BatchSize>& measured = problem.kinds[k].shares;
    std::erase_if(wanted[k], [&](BatchSize share) {
      return std::ranges::binary_search(measured, share);
    });
  }
  return wanted;
}

}  // namespace ucudnn::train
