#include "client/dropin/planner/plan_file_kernels.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/file.h"
#include "base/files/json_object.h"
#include "base/plan/plan_json.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

void Add(const WorkspacePlan& plan, std::vector<FileKernel>* kernels) {
  for (const KernelPlan& kernel : plan.kernels) {
    if (kernel.problem) kernels->push_back({plan.batch, kernel});
  }
}

// The workspace plans of the ranks of `kind`, those of equal ranks once.
std::vector<SharedValue<WorkspacePlan>> PlansOf(const JobPlan& job,
                                                const std::string& kind) {
  std::vector<SharedValue<WorkspacePlan>> plans;
  for (const RankPlan& rank : job.ranks) {
    if (rank.device_kind == kind &&
        std::ranges::find(plans, rank.workspace) == plans.end()) {
      plans.push_back(rank.workspace);
    }
  }
  return plans;
}

Result<std::vector<FileKernel>> FromJson(const Json& json,
                                         const std::string& kind) {
  std::vector<FileKernel> kernels;
  if (json.is_object() && json.contains("ranks")) {
    UCUDNN_ASSIGN_OR_RETURN(const JobPlan job, JobPlanFromJson(json));
    for (const auto& plan : PlansOf(job, kind)) Add(plan, &kernels);
  } else {
    UCUDNN_ASSIGN_OR_RETURN(const WorkspacePlan plan,
                            WorkspacePlanFromJson(json));
    Add(plan, &kernels);
  }
  if (kernels.empty()) {
    return Fail(Code::kInvalidArgument,
                "no kernel of which the problem is told for {}", kind);
  }
  return kernels;
}

}  // namespace

Result<std::vector<FileKernel>> ParseKernelPlans(std::string_view text,
                                                 const std::string& kind,
                                                 std::string_view source) {
  auto kernels = ParseJson(text).and_then(
      [&](const Json& json) { return FromJson(json, kind); });
  if (!kernels) return Within(source, std::move(kernels).error());
  return kernels;
}

Result<std::vector<FileKernel>> ReadKernelPlans(const std::string& path,
                                                const std::string& kind) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxPlanFile));
  return ParseKernelPlans(text, kind, path);
}

}  // namespace ucudnn
