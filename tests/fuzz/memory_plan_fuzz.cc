#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/training/json.h"
#include "client/solve/memory_check.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// Plans with their training graph are refused, or keep every rule; then they
// are written as what reads back as the same and keeps the rules again.
UCUDNN_FUZZ(memory_plan, text) {
  const auto checked =
      CheckMemoryPlans({std::string(text), "fuzz"}, std::nullopt);
  if (!checked) return CheckError(checked.error());
  for (const auto& [graph, plan] : *checked) {
    const std::string text_again = ToJsonWithGraph(plan, *graph).dump();
    const auto again = CheckMemoryPlans({text_again, "again"}, std::nullopt);
    // Beyond 2^51 ns numbers of microseconds are not exact.
    if (plan.time.count() >= std::int64_t{1} << 51) continue;
    UCUDNN_CHECK(again.has_value());
    UCUDNN_CHECK(again->front().plan == plan);
  }
}

}  // namespace ucudnn
