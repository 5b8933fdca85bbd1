#ifndef UCUDNN_BASE_PLAN_PLAN_JSON_H_
#define UCUDNN_BASE_PLAN_PLAN_JSON_H_

// Plans as JSON: workspace plans as `ucudnn solve wr|wd|ws` prints them, and
// those of jobs as `ucudnn show plan ID -o json` does and REST answers with. A
// workspace plan:
//
//   {"batch":256,"workspace_limit_bytes":67108864,"total_time_us":20512.3,
//    "lower_bound_us":20512.3,"optimal":true,"undivided_time_us":37540.1,
//    "total_workspace_bytes":…,"kernels":[{"layer":"conv2","op":"forward",
//    "precision":"FP32","layout":"NCHW","time_us":…,"undivided_time_us":null,
//    "workspace_bytes":…,"micro_batches":[{"batch":32,"count":8,
//    "algorithm":"FFT_TILING","math":"FMA","precision":"FP32","time_us":…,
//    "workspace_bytes":…}]}]}
//
// A kernel also has `offset_bytes` and `problem` (base/conv_problem.h) where
// the plan knows them. A job's plan has its request and the ranks, each with a
// workspace plan; it is written as the message in which plans travel. Bytes are
// integers. Times are numbers of microseconds, exact to the nanosecond up to
// 2^51 ns (26 days).

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/plan/job_plan.h"
#include "base/plan/plan.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

nlohmann::ordered_json ToJson(const WorkspacePlan& plan);
nlohmann::ordered_json ToJson(const std::vector<MicroBatch>& micro_batches);

// Reads what ToJson, and for jobs ToJsonText, write. Unknown fields are
// ignored, and null counts as absent. May be left out: `layout` (NCHW) and a
// micro-batch's `precision` (the kernel's); of a job's plan all but a request
// with network, batch and kinds, and ranks with kind, batch, weight and, if
// they have a batch, a workspace. kInvalidArgument, naming the path
// ("kernels[3].time_us"), the value and what is accepted, if a field is missing
// or of the wrong type, or as Validate (base/plan/plan.h, job_plan.h) says.
Result<WorkspacePlan> WorkspacePlanFromJson(const nlohmann::ordered_json& json);
Result<JobPlan> JobPlanFromJson(const nlohmann::ordered_json& json);
// The request alone. Empty texts count as absent.
Result<JobRequest> JobRequestFromJson(const nlohmann::ordered_json& json);

// The same from text, which `source` names in errors. kInvalidArgument also if
// it is not JSON, telling the line and column.
Result<WorkspacePlan> ParseWorkspacePlan(std::string_view text,
                                         std::string_view source);
Result<JobPlan> ParseJobPlan(std::string_view text, std::string_view source);

inline constexpr Bytes kMaxPlanFile = 1_GiB;

// A job's plan on disk: what UCUDNN_PLAN_FILE names and what the cache keeps.
// Errors of ReadFile (base/files/file.h), with at most kMaxPlanFile, and of
// ParseJobPlan.
Result<JobPlan> ReadPlanFile(const std::string& path);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_PLAN_PLAN_JSON_H_
