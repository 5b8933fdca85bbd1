#include "device/cudnn/graph/name.h"

#include <charconv>
#include <utility>

#include "base/text.h"

namespace ucudnn::cudnn {
namespace {

// Removes `prefix` from the front of `*text`; false if it is not there.
bool Skip(std::string_view prefix, std::string_view* text) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

bool Number(std::string_view* text, std::int64_t* number) {
  const char* const end = text->data() + text->size();
  const auto [next, error] = std::from_chars(text->data(), end, *number);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<std::size_t>(next - text->data()));
  return true;
}

bool Parse(std::string_view text, EngineName* name) {
  if (!Skip("eng", &text) || !Number(&text, &name->engine)) return false;
  while (!text.empty()) {
    Knob knob;
    if (!Skip("-k", &text) || !Number(&text, &knob.type) || !Skip("=", &text) ||
        !Number(&text, &knob.value)) {
      return false;
    }
    if (!name->knobs.empty() && name->knobs.back().type >= knob.type) {
      return false;
    }
    name->knobs.push_back(knob);
  }
  return name->engine >= 0 &&
         (name->knobs.empty() || name->knobs.front().type >= 0);
}

}  // namespace

bool IsEngineName(std::string_view text) {
  return Skip("eng", &text) && !text.empty() && text.front() >= '0' &&
         text.front() <= '9';
}

std::string ToString(const EngineName& name) {
  std::string text = fmt::format("eng{}", name.engine);
  for (const Knob& knob : name.knobs) {
    text += fmt::format("-k{}={}", knob.type, knob.value);
  }
  return text;
}

Result<EngineName> ParseEngineName(std::string_view text) {
  EngineName name;
  // The round trip rejects leading zeros and signs.
  if (!Parse(text, &name) || ToString(name) != text) {
    return Fail(Code::kInvalidArgument,
                "'{}' is not the name of an engine, such as eng18-k2=4-k7=1 "
                "with its knobs in rising order",
                Excerpt(text));
  }
  return name;
}

}  // namespace ucudnn::cudnn
