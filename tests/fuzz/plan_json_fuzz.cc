#include <nlohmann/json.hpp>

#include "base/plan/plan_json.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// What is read can be written, and what is written reads back.
UCUDNN_FUZZ(plan_json, text) {
  const auto plan = ParseWorkspacePlan(text, "fuzz");
  if (!plan) return CheckError(plan.error());
  const auto again = ParseWorkspacePlan(ToJson(*plan).dump(), "again");
  UCUDNN_CHECK(again);
  UCUDNN_CHECK(plan->total_time.count() >= std::int64_t{1} << 51 ||
               again->total_time == plan->total_time);
  UCUDNN_CHECK(again->kernels.size() == plan->kernels.size());
}

}  // namespace ucudnn
