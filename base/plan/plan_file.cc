#include "base/plan/plan_file.h"

#include "base/files/file.h"
#include "base/plan/plan_json.h"

namespace ucudnn {

Result<JobPlan> ReadPlanFile(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxPlanFile));
  return ParseJobPlan(text, path);
}

}  // namespace ucudnn
