#ifndef UCUDNN_CLIENT_CLI_SERVER_JSON_PATH_H_
#define UCUDNN_CLIENT_CLI_SERVER_JSON_PATH_H_

// Picks values out of JSON by a part of JSONPath as kubectl writes it:
// members (.name, ['name']), elements ([0], [-1] from the end) and all of them
// ([*]), with or without a leading $ and enclosing {}.
//
//   Select(plan, "{.ranks[*].workspace.total_time_us}")

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ucudnn::ctl {

struct JsonStep {
  enum class Kind { kMember, kElement, kAll };
  Kind kind = Kind::kAll;
  std::string member;
  std::ptrdiff_t element = 0;
};

// kInvalidArgument, naming the place.
Result<std::vector<JsonStep>> ParseJsonPath(std::string_view text);

// The values that the steps lead to; what does not have a step's member or
// element leads to none.
std::vector<nlohmann::ordered_json> Select(const nlohmann::ordered_json& value,
                                           const std::vector<JsonStep>& steps);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_SERVER_JSON_PATH_H_
