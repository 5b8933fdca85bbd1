#include "base/plan/plan_file.h"

#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/plan/plan_json.h"

namespace ucudnn {

std::string ToJsonText(const JobPlan& plan) {
  return ToJson(plan).dump(2, ' ', false,
                           nlohmann::json::error_handler_t::replace) +
         "\n";
}

Result<JobPlan> ReadPlanFile(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxPlanFile));
  return ParseJobPlan(text, path);
}

Status WritePlanFile(const std::string& path, const JobPlan& plan) {
  return ReplaceFile(path, ToJsonText(plan));
}

}  // namespace ucudnn
