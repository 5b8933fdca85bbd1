#include "client/cli/server/json_path.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "base/units.h"

namespace ucudnn::ctl {
namespace {

using Json = nlohmann::ordered_json;

// Reads one step off the front of `rest`.
Result<JsonStep> NextStep(std::string_view* rest) {
  JsonStep step;
  if (rest->front() == '[') {
    const std::size_t end = rest->find(']');
    if (end == std::string_view::npos) {
      return Fail(Code::kInvalidArgument, "']' is missing");
    }
    std::string_view inside = rest->substr(1, end - 1);
    rest->remove_prefix(end + 1);
    if (inside == "*") return step;
    if (inside.size() >= 2 && inside.front() == inside.back() &&
        (inside.front() == '\'' || inside.front() == '"')) {
      step.kind = JsonStep::Kind::kMember;
      step.member = inside.substr(1, inside.size() - 2);
      return step;
    }
    const auto index = ParseInteger(inside, -kMaxCount, kMaxCount);
    if (!index) {
      return Fail(Code::kInvalidArgument,
                  "[{}] is given; [*], [0] or ['name'] are accepted",
                  Excerpt(inside, 40));
    }
    step.kind = JsonStep::Kind::kElement;
    step.element = *index;
    return step;
  }
  if (rest->front() == '.') rest->remove_prefix(1);
  const std::size_t end = std::min(rest->find_first_of(".["), rest->size());
  if (end == 0) {
    return Fail(Code::kInvalidArgument, "a name is missing after '.'");
  }
  if (rest->substr(0, end).find_first_of("{}'\" \\") < end) {
    return Fail(Code::kInvalidArgument,
                "'{}' is no name; one path such as {{[*].id}} is accepted, and "
                "names of other characters as ['name']",
                Excerpt(rest->substr(0, end), 40));
  }
  step.kind = JsonStep::Kind::kMember;
  step.member = rest->substr(0, end);
  rest->remove_prefix(end);
  return step;
}

void Follow(const Json& value, const JsonStep& step, std::vector<Json>* found) {
  switch (step.kind) {
    case JsonStep::Kind::kMember:
      if (value.is_object() && value.contains(step.member)) {
        found->push_back(value[step.member]);
      }
      return;
    case JsonStep::Kind::kElement: {
      if (!value.is_array()) return;
      const auto size = static_cast<std::ptrdiff_t>(value.size());
      const std::ptrdiff_t at =
          step.element < 0 ? size + step.element : step.element;
      if (at >= 0 && at < size) {
        found->push_back(value[static_cast<std::size_t>(at)]);
      }
      return;
    }
    case JsonStep::Kind::kAll:
      if (!value.is_structured()) return;
      for (const auto& element : value) found->push_back(element);
  }
}

}  // namespace

Result<std::vector<JsonStep>> ParseJsonPath(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with('{') && rest.ends_with('}')) {
    rest = rest.substr(1, rest.size() - 2);
  }
  if (rest.starts_with('$')) rest.remove_prefix(1);
  std::vector<JsonStep> steps;
  while (!rest.empty()) {
    Result<JsonStep> step = NextStep(&rest);
    if (!step) return Within(Excerpt(text, 100), std::move(step).error());
    steps.push_back(*std::move(step));
  }
  return steps;
}

std::vector<Json> Select(const Json& value,
                         const std::vector<JsonStep>& steps) {
  std::vector<Json> values = {value};
  for (const JsonStep& step : steps) {
    std::vector<Json> next;
    for (const Json& from : values) Follow(from, step, &next);
    values = std::move(next);
  }
  return values;
}

}  // namespace ucudnn::ctl
