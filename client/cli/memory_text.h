#ifndef UCUDNN_CLIENT_CLI_MEMORY_TEXT_H_
#define UCUDNN_CLIENT_CLI_MEMORY_TEXT_H_

// A memory plan for people, from its JSON (base/training/json.h).

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/units.h"

namespace ucudnn::ctl {

// "+3.2 %"; "-" if `from` is 0.
std::string Deviation(Nanoseconds time, Nanoseconds from);

// What the plan adds up to, as a table. Fields that are missing show as 0.
std::string MemorySummary(const nlohmann::ordered_json& plan);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_MEMORY_TEXT_H_
