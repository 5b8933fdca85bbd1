#ifndef UCUDNN_BASE_PLAN_PREDICTION_H_
#define UCUDNN_BASE_PLAN_PREDICTION_H_

// How programs say what a plan does, and what its predicted times and shares
// cover. A memory plan's times cover whole iterations; these words are not for
// it.

#include <string>
#include <string_view>
#include <vector>

#include "base/plan/plan.h"

namespace ucudnn {

inline constexpr std::string_view kPredicted = "predicted (convolutions only)";
// The same above a column.
inline constexpr std::string_view kPredictedHeading =
    "PREDICTED (CONVOLUTIONS ONLY)";
inline constexpr std::string_view kConvolutionsNote =
    "predicted times and shares count convolutions only";
// The same of a plan for which the devices' memory is not known.
inline constexpr std::string_view kPredictionNote =
    "predicted times and shares count convolutions only; they do not consider "
    "the GPUs' memory";

inline constexpr std::string_view kWholeSteps = "predicted (whole step)";
// The same above a column.
inline constexpr std::string_view kWholeStepsHeading = "PREDICTED (WHOLE STEP)";
inline constexpr std::string_view kWholeStepsNote =
    "predicted times and shares count whole steps, as tasks measured alone "
    "take";

// "8 × 32, FFT + 1 × 4, GEMM"; equal neighbours are told as one.
inline std::string DivisionText(const std::vector<MicroBatch>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const MicroBatch& part = parts[i];
    std::int64_t count = part.count;
    while (i + 1 < parts.size() && parts[i + 1].batch == part.batch &&
           parts[i + 1].algorithm.name == part.algorithm.name) {
      count += parts[++i].count;
    }
    text += fmt::format("{}{} × {}, {}", text.empty() ? "" : " + ", count,
                        part.batch.count(), part.algorithm.name);
  }
  return text;
}

}  // namespace ucudnn

#endif  // UCUDNN_BASE_PLAN_PREDICTION_H_
