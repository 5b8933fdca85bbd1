#include "base/plan/plan.h"

#include <algorithm>
#include <set>

#include "base/text.h"

namespace ucudnn {
namespace {

std::string AccuracyNote(std::ptrdiff_t unknown, std::size_t kernels,
                         std::string_view verb) {
  if (unknown == 0) return {};
  return fmt::format(
      "accuracy not measured: {} of {} kernels {} algorithms of unknown error",
      unknown, kernels, verb);
}

}  // namespace

std::string_view Name(BatchPolicy policy) {
  switch (policy) {
    case BatchPolicy::kAll:
      return "all";
    case BatchPolicy::kPowerOfTwo:
      return "powerOfTwo";
    case BatchPolicy::kUndivided:
      return "undivided";
    case BatchPolicy::kAdaptive:
      return "adaptive";
  }
  return "";
}

Result<BatchPolicy> ParseBatchPolicy(std::string_view text) {
  for (const BatchPolicy policy : kBatchPolicies) {
    if (Name(policy) == text) return policy;
  }
  return Fail(Code::kInvalidArgument,
              "'{}' is not a batch policy; {} is accepted", Excerpt(text),
              BatchPolicyNames());
}

std::string BatchPolicyNames() {
  std::string names;
  for (const BatchPolicy policy : kBatchPolicies) {
    if (policy == kBatchPolicies.back()) {
      names += " or ";
    } else if (!names.empty()) {
      names += ", ";
    }
    names += Name(policy);
  }
  return names;
}

std::string KernelName(const KernelPlan& kernel) {
  return fmt::format("{} {}", kernel.layer, Name(kernel.op));
}

std::string AccuracyNote(const Profile& kernels, const WorkspacePlan& plan) {
  std::ptrdiff_t unknown = 0;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    std::set<Algorithm> known;
    for (const MeasuredPoint& point : kernels.kernels[k].points) {
      if (point.error_ppt > 0) known.insert(point.algorithm);
    }
    unknown += std::ranges::any_of(plan.kernels[k].micro_batches,
                                   [&](const MicroBatch& micro) {
                                     return !known.contains(micro.algorithm);
                                   })
                   ? 1
                   : 0;
  }
  return AccuracyNote(unknown, plan.kernels.size(), "use");
}

std::string AccuracyNote(const Profile& kernels) {
  const auto unknown =
      std::ranges::count_if(kernels.kernels, [](const KernelProfile& kernel) {
        return std::ranges::any_of(
            kernel.points,
            [](const MeasuredPoint& point) { return point.error_ppt == 0; });
      });
  return AccuracyNote(unknown, kernels.kernels.size(), "have");
}

double Operations(const WorkspacePlan& plan) {
  double sum = 0;
  for (const KernelPlan& kernel : plan.kernels) {
    if (!kernel.problem) continue;
    sum += 2.0 * static_cast<double>(kernel.problem->geometry.multiply_adds()) *
           static_cast<double>(plan.batch.count());
  }
  return sum;
}

void ShareArena(WorkspacePlan* plan) {
  plan->total_workspace = Bytes(0);
  for (KernelPlan& kernel : plan->kernels) {
    kernel.offset = Bytes(0);
    plan->total_workspace = std::max(plan->total_workspace, kernel.workspace);
  }
}

}  // namespace ucudnn
