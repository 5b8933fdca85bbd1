#include "base/other_tasks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace ucudnn {
namespace {

constexpr std::string_view kTasks = "tasks-";
constexpr std::string_view kMomentum = "-momentum";
constexpr std::size_t kHashDigits = 64;

}  // namespace

std::string ToString(const OtherTasks& tasks) {
  return fmt::format("{}{}{}-{}-{}", kTasks, tasks.network,
                     tasks.momentum ? kMomentum : "", Name(tasks.precision),
                     Name(Layout::kNchw));
}

Result<OtherTasks> ParseOtherTasks(std::string_view text) {
  OtherTasks tasks;
  if (IsOtherTasks(text) && text.size() > kTasks.size() + kHashDigits) {
    std::string_view rest = text.substr(kTasks.size());
    tasks.network = rest.substr(0, kHashDigits);
    rest.remove_prefix(kHashDigits);
    tasks.momentum = rest.starts_with(kMomentum);
    if (tasks.momentum) rest.remove_prefix(kMomentum.size());
    const std::size_t end = rest.rfind('-');
    if (end != rest.npos && end > 1) {
      tasks.precision =
          ParsePrecision(rest.substr(1, end - 1)).value_or(Precision::kFp32);
    }
  }
  const bool is_hash = std::ranges::all_of(tasks.network, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
  if (is_hash && !tasks.network.empty() && ToString(tasks) == text) {
    return tasks;
  }
  return Fail(Code::kInvalidArgument,
              "'{}' are no tasks; tasks-<SHA-256>-FP32-NCHW, also with another "
              "precision and with -momentum before it, is accepted",
              Excerpt(text));
}

bool IsOtherTasks(std::string_view problem) {
  return problem.starts_with(kTasks);
}

Status CheckProblem(std::string_view text) {
  if (IsOtherTasks(text)) {
    UCUDNN_RETURN_IF_ERROR(ParseOtherTasks(text));
  } else {
    UCUDNN_RETURN_IF_ERROR(ParseConvProblem(text));
  }
  return {};
}

}  // namespace ucudnn
