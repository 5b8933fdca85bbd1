#include "solver/knapsack/classes.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

namespace ucudnn::mckp_internal {
namespace {

constexpr int kMaxTotalBits = 60;
constexpr std::int64_t kMaxTotal = std::int64_t{1} << kMaxTotalBits;
constexpr std::int64_t kMaxCopies = std::numeric_limits<std::uint32_t>::max();

// sum + number * count; overflow wraps around.
std::int64_t Wrapped(std::int64_t sum, std::int64_t number,
                     std::int64_t count) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(sum) +
                                   static_cast<std::uint64_t>(number) *
                                       static_cast<std::uint64_t>(count));
}

int Width(std::int64_t number) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(number)));
}

std::uint32_t Cheapest(std::span<const MckpItem> items) {
  std::uint32_t best = 0;
  for (std::uint32_t i = 1; i < items.size(); ++i) {
    const MckpItem& a = items[i];
    const MckpItem& b = items[best];
    if (a.cost < b.cost || (a.cost == b.cost && a.weight < b.weight)) best = i;
  }
  return best;
}

// The usual case: items in order, and numbers so small that no sum can overflow
// its limit.
std::optional<Survey> QuickSurvey(std::span<const MckpClass> classes) {
  Survey survey;
  std::int64_t costs = 0;  // their bits
  std::int64_t weights = 0;
  for (const MckpClass& given : classes) {
    const std::size_t size = given.items.size();
    if (size - 1 >= kMaxCopies || given.count < 1 ||
        given.count > kMaxCopies - survey.copies) {
      return std::nullopt;
    }
    const MckpItem* item = given.items.data();
    const MckpItem* const last = item + size - 1;
    costs |= item->cost | last->cost;
    weights |= item->weight | last->weight;
    survey.copies += given.count;
    survey.cheapest_cost =
        Wrapped(survey.cheapest_cost, last->cost, given.count);
    survey.cheapest_weight =
        Wrapped(survey.cheapest_weight, last->weight, given.count);
    for (; item != last; ++item) {
      if (item->weight >= item[1].weight || item->cost <= item[1].cost) {
        return std::nullopt;
      }
    }
  }
  const int most = kMaxTotalBits - Width(survey.copies);
  if (costs < 0 || weights < 0 || Width(costs | weights) > most) {
    return std::nullopt;
  }
  return survey;
}

// The general case.
Result<Survey> CarefulSurvey(std::span<const MckpClass> classes) {
  __extension__ using Wide = __int128;
  Survey survey;
  Wide largest_cost = 0;
  Wide largest_weight = 0;
  Wide cheapest_cost = 0;
  Wide cheapest_weight = 0;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    const auto& [items, count] = classes[k];
    if (items.empty()) {
      return Fail(Code::kInvalidArgument, "class {} has no items", k);
    }
    if (count < 1 || count > kMaxCopies - survey.copies ||
        items.size() > static_cast<std::size_t>(kMaxCopies)) {
      return Fail(Code::kInvalidArgument,
                  "class {} has {} copies of {} items; a count from 1 to 2^32 "
                  "- 1 of each is accepted, over all classes",
                  k, count, items.size());
    }
    survey.copies += count;
    survey.in_order = survey.in_order && InOrder(items);
    std::int64_t max_cost = 0;
    std::int64_t max_weight = 0;
    for (const MckpItem& item : items) {
      if (item.cost < 0 || item.weight < 0) {
        return Fail(Code::kInvalidArgument,
                    "class {} has a negative cost or weight", k);
      }
      max_cost = std::max(max_cost, item.cost);
      max_weight = std::max(max_weight, item.weight);
    }
    const MckpItem& cheapest = items[Cheapest(items)];
    largest_cost += Wide{max_cost} * count;
    largest_weight += Wide{max_weight} * count;
    cheapest_cost += Wide{cheapest.cost} * count;
    cheapest_weight += Wide{cheapest.weight} * count;
  }
  if (largest_cost > kMaxTotal || largest_weight > kMaxTotal) {
    return Fail(Code::kOutOfRange,
                "the {} of the classes sum to more than 2^60",
                largest_cost > kMaxTotal ? "largest costs" : "largest weights");
  }
  survey.cheapest_cost = static_cast<std::int64_t>(cheapest_cost);
  survey.cheapest_weight = static_cast<std::int64_t>(cheapest_weight);
  return survey;
}

}  // namespace

Result<Survey> SurveyOf(std::span<const MckpClass> classes) {
  if (const auto survey = QuickSurvey(classes)) return *survey;
  return CarefulSurvey(classes);
}

std::vector<std::uint32_t> CheapestChoice(std::span<const MckpClass> classes,
                                          const Survey& survey) {
  const auto cheapest = [&](std::span<const MckpItem> items) {
    return survey.in_order ? static_cast<std::uint32_t>(items.size() - 1)
                           : Cheapest(items);
  };
  std::vector<std::uint32_t> choice;
  choice.reserve(static_cast<std::size_t>(survey.copies));
  for (const auto& [items, count] : classes) {
    choice.insert(choice.end(), static_cast<std::size_t>(count),
                  cheapest(items));
  }
  return choice;
}

Kinds KindsOf(std::span<const MckpClass> classes,
              std::pmr::memory_resource* memory) {
  Kinds kinds(memory);
  kinds.of.resize(classes.size());
  kinds.first.reserve(classes.size());
  kinds.count.reserve(classes.size());
  // An open hash table of kinds by size and outermost items.
  constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  const std::size_t slots = std::bit_ceil(4 * classes.size() + 1);
  const int shift = 64 - std::countr_zero(slots);
  std::pmr::vector<std::uint32_t> table(slots, kNone, memory);
  const auto hash = [shift](std::span<const MckpItem> items) {
    const std::uint64_t mixed =
        static_cast<std::uint64_t>(items.front().cost) * 0x9E3779B97F4A7C15U +
        static_cast<std::uint64_t>(items.back().weight) * 0xC2B2AE3D27D4EB4FU +
        items.size();
    return static_cast<std::size_t>(
        (mixed ^ mixed >> 32) * 0x9E3779B97F4A7C15U >> shift);
  };
  constexpr int kProbes = 8;
  for (std::uint32_t k = 0; k < classes.size(); ++k) {
    const std::span<const MckpItem>& items = classes[k].items;
    const auto fresh = static_cast<std::uint32_t>(kinds.first.size());
    std::uint32_t kind = fresh;
    std::size_t slot = hash(items);
    for (int probe = 0; probe < kProbes; ++probe) {
      if (table[slot] == kNone) {
        table[slot] = fresh;
        break;
      }
      const std::span<const MckpItem>& known =
          classes[kinds.first[table[slot]]].items;
      if (known.size() == items.size() &&
          (known.data() == items.data() || std::ranges::equal(known, items))) {
        kind = table[slot];
        break;
      }
      slot = (slot + 1) & (slots - 1);
    }
    kinds.of[k] = kind;
    if (kind == fresh) {
      kinds.first.push_back(k);
      kinds.count.push_back(classes[k].count);
    } else {
      kinds.count[kind] += classes[k].count;
    }
  }
  return kinds;
}

}  // namespace ucudnn::mckp_internal
