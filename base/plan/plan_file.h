#ifndef UCUDNN_BASE_PLAN_PLAN_FILE_H_
#define UCUDNN_BASE_PLAN_PLAN_FILE_H_

// A job's plan on disk: what UCUDNN_PLAN_FILE names and what the cache keeps,
// as JSON (base/plan/plan_json.h).

#include <string>

#include "base/plan/job_plan.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

inline constexpr Bytes kMaxPlanFile = 1_GiB;

// The errors of ReadFile (base/files/file.h), with at most kMaxPlanFile, and of
// ParseJobPlan.
Result<JobPlan> ReadPlanFile(const std::string& path);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_PLAN_PLAN_FILE_H_
