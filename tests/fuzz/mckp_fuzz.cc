#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "solver/check/validate_choice.h"
#include "solver/knapsack/mckp.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/instance.h"

namespace ucudnn {
namespace {

// The least cost for each weight up to `capacity`, item by item; absent where
// there would be too many.
std::optional<std::int64_t> ByEnumeration(const std::vector<MckpClass>& classes,
                                          std::int64_t capacity) {
  constexpr std::size_t kMost = 4000;
  std::map<std::int64_t, std::int64_t> cheapest = {{0, 0}};
  for (const MckpClass& one : classes) {
    for (std::int64_t copy = 0; copy < one.count; ++copy) {
      std::map<std::int64_t, std::int64_t> next;
      for (const auto& [weight, cost] : cheapest) {
        for (const MckpItem& item : one.items) {
          if (weight + item.weight > capacity) continue;
          const auto [at, fresh] =
              next.emplace(weight + item.weight, cost + item.cost);
          if (!fresh) at->second = std::min(at->second, cost + item.cost);
        }
      }
      if (next.size() > kMost) return std::nullopt;
      cheapest = std::move(next);
    }
  }
  std::int64_t best = std::numeric_limits<std::int64_t>::max();
  for (const auto& [weight, cost] : cheapest) best = std::min(best, cost);
  return best;
}

}  // namespace

// A solution that an independent check accepts and, where that can be told,
// that nothing beats, or an error; under a small budget a bound that is one.
UCUDNN_FUZZ(mckp, text) {
  FuzzBytes bytes(text);
  const std::int64_t capacity = bytes.Number();
  std::vector<std::vector<MckpItem>> items;
  std::vector<MckpClass> classes;
  while (!bytes.empty() && items.size() < 40) {
    const std::int64_t head = bytes.Byte();
    auto& added = items.emplace_back();
    classes.push_back({{}, 1 + head / 64});
    // Scaled ones are such as bytes and nanoseconds are.
    const std::int64_t scale = head % 4 == 0 ? 4352 : 1;
    for (std::int64_t n = head / 4 % 16; n > 0; --n) {
      const std::int64_t cost = bytes.Number();
      const std::int64_t weight = bytes.Number();
      const bool small = weight >= 0 && weight < 240;
      added.push_back({cost, small ? weight * scale : weight});
    }
  }
  for (std::size_t k = 0; k < items.size(); ++k) classes[k].items = items[k];
  const auto solution =
      SolveMckp(classes, capacity, {.max_nodes = 200'000, .stop = {}});
  if (!solution) return CheckError(solution.error());
  UCUDNN_CHECK(ValidateMckp(*solution, classes, capacity));
  const auto hurried =
      SolveMckp(classes, capacity, {.max_nodes = 10, .stop = {}});
  UCUDNN_CHECK(hurried && ValidateMckp(*hurried, classes, capacity));
  UCUDNN_CHECK(hurried->lower_bound <= solution->cost &&
               solution->lower_bound <= hurried->cost);
  const auto best = ByEnumeration(classes, capacity);
  if (!best.has_value()) return;
  UCUDNN_CHECK(solution->lower_bound <= *best && *best <= solution->cost);
  UCUDNN_CHECK(!solution->optimal || solution->cost == *best);
}

}  // namespace ucudnn
