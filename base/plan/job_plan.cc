#include "base/plan/job_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"

namespace ucudnn {

Result<std::vector<Bytes>> ParseBudgets(std::string_view text) {
  std::vector<Bytes> budgets;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    UCUDNN_ASSIGN_OR_RETURN(budgets.emplace_back(),
                            ParseBytes(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return budgets;
}

bool CountsWholeSteps(const JobPlan& plan) {
  return plan.request.memory || !plan.request.step.empty() ||
         std::any_of(plan.ranks.begin(), plan.ranks.end(),
                     [](const RankPlan& rank) {
                       return rank.workspace->other_time > Nanoseconds(0);
                     });
}

const DeviceMemoryPlan* MemoryPlanOf(const JobPlan& plan, std::size_t rank) {
  const RankPlan& of = plan.ranks[rank];
  const Bytes budget = of.memory ? of.memory->budget : Bytes(0);
  for (const DeviceMemoryPlan& memory : plan.memory_plans) {
    if (memory.device_kind == of.device_kind && memory.batch == of.batch &&
        memory.budget == budget) {
      return &memory;
    }
  }
  return nullptr;
}

std::vector<std::size_t> WorkspaceOwners(std::span<const RankPlan> ranks) {
  std::map<const WorkspacePlan*, std::size_t> first;
  std::vector<std::size_t> owners;
  for (const RankPlan& rank : ranks) {
    owners.push_back(
        first.try_emplace(&*rank.workspace, owners.size()).first->second);
  }
  return owners;
}

}  // namespace ucudnn
