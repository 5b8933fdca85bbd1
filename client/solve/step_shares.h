#ifndef UCUDNN_CLIENT_SOLVE_STEP_SHARES_H_
#define UCUDNN_CLIENT_SOLVE_STEP_SHARES_H_

// Shares by the times of whole steps as text: what ucudnn_solve_step_shares
// (client/include/ucudnn/solve.h) is asked and answers.

#include <chrono>
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "solver/step_file.h"
#include "solver/step_shares.h"

namespace ucudnn {

inline constexpr std::size_t kMaxSharingKinds = 16'384;

struct StepSharesRequest {
  StepProblem problem;  // without a stop
  std::chrono::milliseconds time_limit{60'000};
};
// Of a step. kInvalidArgument, naming the field, its value and what is
// accepted, also if a kind is not the step's.
Result<StepSharesRequest> ParseStepSharesRequest(
    const std::vector<StepKind>& step, std::string_view text);

nlohmann::ordered_json ToJson(const StepProblem& problem,
                              const StepShares& shares);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SOLVE_STEP_SHARES_H_
