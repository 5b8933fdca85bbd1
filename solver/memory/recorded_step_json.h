#ifndef UCUDNN_SOLVER_MEMORY_RECORDED_STEP_JSON_H_
#define UCUDNN_SOLVER_MEMORY_RECORDED_STEP_JSON_H_

// Recorded training steps as the JSON of ucudnn_solve_recorded_step.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "solver/memory/recorded_step.h"

namespace ucudnn {

// kInvalidArgument, naming the field after `path`, its value and what is
// accepted.
Result<RecordedStep> RecordedStepFromJson(const nlohmann::ordered_json& json,
                                          std::string path);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_RECORDED_STEP_JSON_H_
