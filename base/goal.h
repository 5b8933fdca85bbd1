#ifndef UCUDNN_BASE_GOAL_H_
#define UCUDNN_BASE_GOAL_H_

// What a benchmark task measures of a problem at a batch.

#include <optional>
#include <string>
#include <string_view>

#include "base/accuracy.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

struct TaskGoal {
  // Not adaptive: every algorithm at the batch. Adaptive: the points that plans
  // for a mini-batch of that size need, at any micro-batch.
  bool adaptive = false;
  // Adaptive: under this limit; absent: under every limit up to the task's
  // largest workspace.
  std::optional<Bytes> limit;
  // Adaptive: by algorithms that err by no more (base/accuracy.h).
  double max_error = kDefaultMaxError;

  friend auto operator<=>(const TaskGoal&, const TaskGoal&) = default;
};

// Its one text form: "", "adaptive", "adaptive-67108864",
// "adaptive-67108864-within-0.001".
std::string ToString(const TaskGoal& goal);
// Reads back exactly what ToString writes; kInvalidArgument for anything else.
Result<TaskGoal> ParseTaskGoal(std::string_view text);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_GOAL_H_
