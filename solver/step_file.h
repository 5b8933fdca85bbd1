#ifndef UCUDNN_SOLVER_STEP_FILE_H_
#define UCUDNN_SOLVER_STEP_FILE_H_

// What a framework measured or recorded of its training step, as JSON
// (docs/steps.md):
//
//   {"kinds": [{"device_kind": "NVIDIA H200/132u/139GiB/cudnn-9.19",
//               "least": 1, "passes": 4, "fingerprint": "3f8a...",
//               "steps": [{"batch": 8, "time_us": 812.5, "peak_bytes": 4096},
//                         {"batch": 16, "recorded": {"segments": ...}}]}]}

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "solver/step_shares.h"

namespace ucudnn {

// As JSON it takes some 30 times as much in memory; one of 1000 segments and
// 500 tensors has some 100 kB a batch.
inline constexpr std::size_t kMaxStepBytes = std::size_t{8} << 20;
inline constexpr std::size_t kMaxMeasuredSteps = 1024;  // of a kind
inline constexpr std::size_t kMaxStepKinds = 64;
inline constexpr std::size_t kMaxStepTextBytes = 512;

// What was measured on each kind, whose name is the kind; memory is not
// bounded. kInvalidArgument, naming the field, its value and what is accepted,
// also if a kind is there twice or contradicts itself (CheckStepKind).
Result<std::vector<StepKind>> ParseStep(std::string_view content,
                                        std::size_t most_kinds = kMaxStepKinds);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_STEP_FILE_H_
