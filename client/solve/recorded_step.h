#ifndef UCUDNN_CLIENT_SOLVE_RECORDED_STEP_H_
#define UCUDNN_CLIENT_SOLVE_RECORDED_STEP_H_

// Recorded training steps and their plans as text: what
// ucudnn_solve_recorded_step (client/include/ucudnn/solve.h) reads and answers.

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/result.h"
#include "solver/memory/recorded_step.h"

namespace ucudnn {

// kInvalidArgument, naming the field, its value and what is accepted.
Result<RecordedStep> ParseRecordedStep(std::string_view text);

struct RecordedStepRequest {
  RecordedRequest request;  // without a stop
  std::chrono::milliseconds time_limit{60'000};
};
Result<RecordedStepRequest> ParseRecordedStepRequest(std::string_view text);

nlohmann::ordered_json ToJson(const RecordedPlan& plan);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SOLVE_RECORDED_STEP_H_
