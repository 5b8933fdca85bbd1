#ifndef UCUDNN_SOLVER_KNAPSACK_CLASSES_H_
#define UCUDNN_SOLVER_KNAPSACK_CLASSES_H_

// What a multiple-choice knapsack is given, looked over, for
// solver/knapsack/mckp: whether it is an instance at all, whether there is
// anything to choose, and which classes are alike.

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
  // Of every class the cheapest item, the lightest of several.
  std::int64_t cheapest_cost = 0;
  std::int64_t cheapest_weight = 0;
};

// One pass over all items, without allocation.
//
// Errors: those of SolveMckp but kFailedPrecondition.
Result<Survey> SurveyOf(std::span<const MckpClass> classes);

// The choice that `survey` found to be cheapest.
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

// Which classes have the same items: those of the same kind.
struct Kinds {
  explicit Kinds(std::pmr::memory_resource* memory)
      : of(memory), first(memory), count(memory) {}

  std::pmr::vector<std::uint32_t> of;     // of each class: its kind
  std::pmr::vector<std::uint32_t> first;  // of each kind: its first class
  std::pmr::vector<std::int64_t> count;   // of each kind: copies in all
};

// Expected linear time in the number of classes, not of items, where alike
// ones are the same memory. Values alone decide, wherever they are; some alike
// classes may be missed where very many others look like them.
Kinds KindsOf(std::span<const MckpClass> classes,
              std::pmr::memory_resource* memory);

}  // namespace ucudnn::mckp_internal

#endif  // UCUDNN_SOLVER_KNAPSACK_CLASSES_H_
