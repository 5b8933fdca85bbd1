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

// Plain text whatever the plan's texts are: what is not UTF-8 is replaced.
std::string ToJsonText(const JobPlan& plan);

// The errors of ReadFile (base/files/file.h), with at most kMaxPlanFile, and of
// ParseJobPlan.
Result<JobPlan> ReadPlanFile(const std::string& path);

// Creates the folder if need be, and replaces the file in one step: whoever
// reads it, after a crash too, sees the old plan or the new one. kUnknown with
// the system's reason if it cannot be written.
Status WritePlanFile(const std::string& path, const JobPlan& plan);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_PLAN_PLAN_FILE_H_
