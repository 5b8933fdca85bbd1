#ifndef UCUDNN_COORDINATOR_STEPS_STEP_FILE_H_
#define UCUDNN_COORDINATOR_STEPS_STEP_FILE_H_

// What a framework measured or recorded of its training step, as JSON
// (docs/steps.md):
//
//   {"kinds": [{"device_kind": "NVIDIA H200/132u/139GiB/cudnn-9.19",
//               "least": 1,
//               "steps": [{"batch": 8, "time_us": 812.5, "peak_bytes": 4096},
//                         {"batch": 16, "recorded": {"segments": ...}}]}]}

#include <string_view>
#include <vector>

#include "base/result.h"
#include "solver/step_shares.h"

namespace ucudnn {

// What was measured on each kind, whose name is the kind; memory is not
// bounded. kInvalidArgument, naming the field, its value and what is accepted,
// also if a kind is there twice or contradicts itself (CheckStepKind).
Result<std::vector<StepKind>> ParseStep(std::string_view content);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STEPS_STEP_FILE_H_
