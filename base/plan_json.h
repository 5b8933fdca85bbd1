#ifndef UCUDNN_BASE_PLAN_JSON_H_
#define UCUDNN_BASE_PLAN_JSON_H_

// Workspace plans as JSON, what `ucudnn solve wr|wd|ws` prints:
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
// the plan knows them. Bytes are integers. Times are numbers of microseconds,
// exact to the nanosecond up to 2^51 ns (26 days).

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/plan.h"
#include "base/result.h"

namespace ucudnn {

// The texts of `plan` are plain text (base/text.h), as all readers make sure.
nlohmann::ordered_json ToJson(const WorkspacePlan& plan);
nlohmann::ordered_json ToJson(const std::vector<MicroBatch>& micro_batches);

// Reads what ToJson writes; unknown fields are ignored, `layout` and a
// micro-batch's `precision` may be left out (NCHW, the kernel's), and whatever
// is null counts as absent. Whether the sums are right is not checked.
// kInvalidArgument, naming the path ("kernels[3].time_us"), the value and what
// is accepted, if a field is missing, of the wrong type or out of range.
Result<WorkspacePlan> WorkspacePlanFromJson(const nlohmann::ordered_json& json);

// The same from text; `source` names it in errors. kInvalidArgument also if it
// is not JSON.
Result<WorkspacePlan> ParseWorkspacePlan(std::string_view text,
                                         std::string_view source);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_PLAN_JSON_H_
