#ifndef UCUDNN_CLIENT_SESSION_PLAN_FILE_H_
#define UCUDNN_CLIENT_SESSION_PLAN_FILE_H_

// Plans on the wire and on disk. A plan file is the JSON that
// `ucudnn show plan ID -o json` prints and REST answers with (proto/json.h):
// what UCUDNN_PLAN_FILE names and what the cache keeps.

#include <string>
#include <string_view>

#include "base/result.h"
#include "client/session/job_plan.h"
#include "ucudnn/v1/types.pb.h"

namespace ucudnn {

v1::PlanRequest ToProto(const JobRequest& request);
// Empty texts have the defaults that types.proto tells. kInvalidArgument names
// the field.
Result<JobRequest> FromProto(const v1::PlanRequest& request);

v1::Plan ToProto(const JobPlan& plan);
Result<JobPlan> FromProto(const v1::Plan& plan);

std::string ToJsonText(const JobPlan& plan);
// `source` names the text in errors. kInvalidArgument, telling the line and
// column or the field, if it is not a plan.
Result<JobPlan> ParsePlan(std::string_view text, std::string_view source);

// The errors of ReadFile (base/files/file.h), with at most 1 GiB, and of
// ParsePlan.
Result<JobPlan> ReadPlanFile(const std::string& path);

// Creates the folder if need be, and replaces the file in one step: whoever
// reads it, after a crash too, sees the old plan or the new one. kUnknown with
// the system's reason if it cannot be written.
Status WritePlanFile(const std::string& path, const JobPlan& plan);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SESSION_PLAN_FILE_H_
