#ifndef UCUDNN_CLIENT_TRAIN_TIMES_JSON_H_
#define UCUDNN_CLIENT_TRAIN_TIMES_JSON_H_

// Times that ranks send to each other, as JSON.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/units.h"

namespace ucudnn::train {

inline nlohmann::ordered_json Counts(const std::vector<Nanoseconds>& times) {
  auto json = nlohmann::ordered_json::array();
  for (const Nanoseconds time : times) json.push_back(time.count());
  return json;
}

inline std::vector<Nanoseconds> TimesOf(const nlohmann::ordered_json& json) {
  std::vector<Nanoseconds> times;
  for (const auto& time : json) times.emplace_back(time.get<std::int64_t>());
  return times;
}

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_TIMES_JSON_H_
