#include "base/goal.h"

#include "base/text.h"

namespace ucudnn {
namespace {

constexpr std::string_view kAdaptive = "adaptive";

}  // namespace

std::string ToString(const TaskGoal& goal) {
  if (!goal.adaptive) return "";
  if (!goal.limit) return std::string(kAdaptive);
  return fmt::format("{}-{}", kAdaptive, goal.limit->count());
}

Result<TaskGoal> ParseTaskGoal(std::string_view text) {
  TaskGoal goal;
  goal.adaptive = text.starts_with(kAdaptive);
  if (goal.adaptive && text.size() > kAdaptive.size()) {
    const auto limit =
        ParseInteger(text.substr(kAdaptive.size() + 1), 0, kMaxCount);
    if (limit) goal.limit = Bytes(*limit);
  }
  if (ToString(goal) != text) {
    return Fail(Code::kInvalidArgument,
                "'{}' is not a task's goal; an empty text, adaptive or "
                "adaptive-<bytes> is accepted",
                Excerpt(text));
  }
  return goal;
}

}  // namespace ucudnn
