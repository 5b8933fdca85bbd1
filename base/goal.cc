#include "base/goal.h"

#include "base/text.h"

namespace ucudnn {
namespace {

constexpr std::string_view kAdaptive = "adaptive";
constexpr std::string_view kWithin = "-within-";

}  // namespace

std::string ToString(const TaskGoal& goal) {
  if (!goal.adaptive) return "";
  std::string text(kAdaptive);
  if (goal.limit) text += fmt::format("-{}", goal.limit->count());
  if (goal.max_error > 0) text += fmt::format("{}{}", kWithin, goal.max_error);
  return text;
}

Result<TaskGoal> ParseTaskGoal(std::string_view text) {
  TaskGoal goal;
  goal.adaptive = text.starts_with(kAdaptive);
  const std::size_t within = text.find(kWithin);
  if (goal.adaptive && within != text.npos) {
    goal.max_error = ParseMaxError(text.substr(within + kWithin.size()))
                         .value_or(kDefaultMaxError);
  }
  const std::string_view before = text.substr(0, within);
  if (goal.adaptive && before.size() > kAdaptive.size()) {
    const auto limit =
        ParseInteger(before.substr(kAdaptive.size() + 1), 0, kMaxCount);
    if (limit) goal.limit = Bytes(*limit);
  }
  if (ToString(goal) != text) {
    return Fail(Code::kInvalidArgument,
                "'{}' is not a task's goal; an empty text, adaptive or "
                "adaptive-<bytes>, also with -within-<error>, is accepted",
                Excerpt(text));
  }
  return goal;
}

}  // namespace ucudnn
