#include "client/dropin/planner/plan_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/file.h"
#include "base/plan_json.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

bool IsWhole(const KernelPlan& kernel, BatchSize batch) {
  if (!kernel.problem || kernel.micro_batches.empty()) return false;
  std::int64_t sum = 0;
  for (const MicroBatch& micro : kernel.micro_batches) {
    if (micro.batch < BatchSize(1) || micro.batch > batch || micro.count < 1 ||
        micro.count > batch.count() || micro.workspace > kernel.workspace) {
      return false;
    }
    sum += micro.batch.count() * micro.count;
  }
  return sum == batch.count();
}

Status Add(const Json& json, std::vector<PlannedKernel>* kernels) {
  UCUDNN_ASSIGN_OR_RETURN(WorkspacePlan plan, WorkspacePlanFromJson(json));
  for (KernelPlan& kernel : plan.kernels) {
    if (!IsWhole(kernel, plan.batch)) continue;
    kernels->push_back({plan.batch, std::move(kernel)});
  }
  return {};
}

Result<std::vector<PlannedKernel>> FromJson(const Json& json,
                                            const std::string& kind) {
  std::vector<PlannedKernel> kernels;
  if (!json.is_object()) {
    return Fail(Code::kInvalidArgument,
                "not a plan: a JSON object is expected");
  }
  if (!json.contains("ranks")) {
    UCUDNN_RETURN_IF_ERROR(Add(json, &kernels));
  } else {
    for (const Json& rank : json.at("ranks")) {
      if (rank.value("device_kind", "") != kind) continue;
      if (rank.value("batch", 0) == 0) continue;
      UCUDNN_RETURN_IF_ERROR(Add(rank.at("workspace"), &kernels));
    }
  }
  if (kernels.empty()) {
    return Fail(Code::kInvalidArgument,
                "no kernel of which the problem is told for {}", kind);
  }
  return kernels;
}

}  // namespace

Result<std::vector<PlannedKernel>> ParseKernelPlans(std::string_view text,
                                                    const std::string& kind,
                                                    std::string_view source) {
  try {
    auto kernels = FromJson(Json::parse(text.begin(), text.end()), kind);
    if (!kernels) return Within(source, std::move(kernels).error());
    return kernels;
  } catch (const std::exception& error) {
    return Fail(Code::kInvalidArgument, "{}: not a plan: {}", source,
                error.what());
  }
}

Result<std::vector<PlannedKernel>> ReadKernelPlans(const std::string& path,
                                                   const std::string& kind) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, 1_GiB));
  return ParseKernelPlans(text, kind, path);
}

}  // namespace ucudnn
