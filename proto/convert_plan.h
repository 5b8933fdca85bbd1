#ifndef UCUDNN_PROTO_CONVERT_PLAN_H_
#define UCUDNN_PROTO_CONVERT_PLAN_H_

// Conversions between the messages of ucudnn.v1 and the types of base/: plans,
// and the requests for them. What they are made from: convert.h.
// Messages from the wire are read and checked as their JSON is
// (base/plan/plan_json.h): kInvalidArgument names the field there.

#include <string>

#include "base/plan/job_plan.h"
#include "base/plan/plan.h"
#include "base/result.h"
#include "ucudnn/v1/types.pb.h"

namespace ucudnn {

v1::MicroBatch ToProto(const MicroBatch& micro);
v1::WorkspacePlan ToProto(const WorkspacePlan& plan);
Result<WorkspacePlan> FromProto(const v1::WorkspacePlan& plan);

v1::PlanRequest ToProto(const JobRequest& request);
// Empty texts mean the defaults in types.proto.
Result<JobRequest> FromProto(const v1::PlanRequest& request);

// Ranks that share a workspace plan are told it once (workspace_of_rank).
v1::Plan ToProto(const JobPlan& plan);
Result<JobPlan> FromProto(const v1::Plan& plan);
// As JSON, as plan files have it, which base/plan/plan_json.h reads.
std::string ToJsonText(const JobPlan& plan);
// The rank's workspace plan, whichever rank has it told.
const v1::WorkspacePlan& WorkspaceOf(const v1::Plan& plan, int rank);

}  // namespace ucudnn

#endif  // UCUDNN_PROTO_CONVERT_PLAN_H_
