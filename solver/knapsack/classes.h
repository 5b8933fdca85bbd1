#ifndef UCUDNN_SOLVER_KNAPSACK_CLASSES_H_
#define UCUDNN_SOLVER_KNAPSACK_CLASSES_H_

// Examines the instance of a multiple-choice knapsack, for
// solver/knapsack/mckp: whether it is valid, whether there is anything to
// choose, and which classes are equal.

#include <cstdint>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "solver/knapsack/mckp.h"

namespace ucudnn::mckp_internal {

struct Survey {
  std::int64_t copies = 0;
  // All items of all classes come by rising weight and falling cost.
  bool in_order = true;
  // Sums over the cheapest item of every class, the lightest of equally cheap.
  std::int64_t cheapest_cost = 0;
  std::int64_t cheapest_weight = 0;
};

// One pass over all items, without allocation. Errors of SolveMckp except
// kFailedPrecondition.
Result<Survey> SurveyOf(std::span<const MckpClass> classes);

// The choice whose cost and weight `survey` has as cheapest.
std::vector<std::uint32_t> CheapestChoice(std::span<const MckpClass> classes,
                                          const Survey& survey);

// Whether `items` come by rising weight and falling cost.
inline bool InOrder(std::span<const MckpItem> items) {
  for (std::size_t i = 1; i < items.size(); ++i) {
    if (items[i - 1].weight >= items[i].weight ||
        items[i - 1].cost <= items[i].cost) {
      return false;
    }
  }
  return true;
}

// Groups classes with the same items into kinds.
struct Kinds {
  explicit Kinds(std::pmr::memory_resource* memory)
      : of(memory), first(memory), count(memory) {}

  std::pmr::vector<std::uint32_t> of;     // of each class: its kind
  std::pmr::vector<std::uint32_t> first;  // of each kind: its first class
  std::pmr::vector<std::int64_t> count;   // of each kind: copies in all
};

// Compares values, wherever they are in memory. Takes expected linear time in
// the number of classes, not of items, if equal classes share memory. May miss
// some equal classes if very many others resemble them.
Kinds KindsOf(std::span<const MckpClass> classes,
              std::pmr::memory_resource* memory);

}  // namespace ucudnn::mckp_internal

#endif  // UCUDNN_SOLVER_KNAPSACK_CLASSES_H_
