#ifndef UCUDNN_BASE_PLAN_PREDICTION_H_
#define UCUDNN_BASE_PLAN_PREDICTION_H_

// How programs say what the predicted times and the shares of a plan cover. A
// memory plan's times cover whole iterations; these words are not for it.

#include <string_view>

namespace ucudnn {

inline constexpr std::string_view kPredicted = "predicted (convolutions only)";
// The same above a column.
inline constexpr std::string_view kPredictedHeading =
    "PREDICTED (CONVOLUTIONS ONLY)";
// One of a plan's reasons.
inline constexpr std::string_view kPredictionNote =
    "predicted times and shares count convolutions only; they do not consider "
    "the GPUs' memory";

}  // namespace ucudnn

#endif  // UCUDNN_BASE_PLAN_PREDICTION_H_
