#include "tests/integration/history/history.h"

#include <nlohmann/json.hpp>

namespace ucudnn::test {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kNames[] = {"sent", "told", "read"};

}  // namespace

std::string ToLine(const Event& event) {
  return Json{{"what", kNames[static_cast<int>(event.what)]},
              {"from", event.from_us},
              {"to", event.to_us},
              {"prefix", event.prefix},
              {"facts", event.facts}}
      .dump();
}

Result<Event> FromLine(const std::string& line) {
  try {
    const Json json = Json::parse(line);
    Event event{.from_us = json.at("from"),
                .to_us = json.at("to"),
                .prefix = json.at("prefix"),
                .facts = json.at("facts").get<Facts>()};
    const std::string what = json.at("what");
    for (int i = 0; i < 3; ++i) {
      if (what != kNames[i]) continue;
      event.what = static_cast<Event::What>(i);
      return event;
    }
  } catch (const Json::exception&) {
    // Reported below.
  }
  return Fail(Code::kDataLoss, "'{}' is no event", line.substr(0, 200));
}

}  // namespace ucudnn::test
