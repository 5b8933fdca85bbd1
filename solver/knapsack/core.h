#ifndef UCUDNN_SOLVER_KNAPSACK_CORE_H_
#define UCUDNN_SOLVER_KNAPSACK_CORE_H_

// The search of a multiple-choice knapsack's core, for solver/knapsack/mckp:
// dynamic programming over the classes that may deviate from the relaxation,
// nearest to its price first. A state is the set of deviations so far, stored
// as the cost and weight that they add to the relaxation; all other classes are
// at their base. The search drops states that are dominated, or whose bound
// over the remaining classes is no better than the best solution. Every state
// that fits is a solution.

#include <cstdint>
#include <limits>
#include <memory_resource>
#include <vector>

#include "solver/knapsack/relaxation.h"
#include "solver/limits.h"

namespace ucudnn::mckp_internal {

// An item that may still be part of a better solution, relative to its class's
// base.
struct Deviation {
  std::int64_t cost = 0;    // added to the base's
  std::int64_t weight = 0;  // added to the base's
  Wide loss = 0;            // times price_q
  std::uint32_t item = 0;   // in Front::items
};

// `copies` copies of a class take `item` (in Front::items), not their base.
struct Change {
  std::uint32_t front = 0;
  std::uint32_t item = 0;
  std::int64_t copies = 0;
};

// A class of the core and its deviations, by rising loss.
struct CoreType {
  std::uint32_t front = 0;
  std::uint32_t begin = 0;
  std::uint32_t end = 0;   // falls while the gap closes
  std::int64_t count = 1;  // with the types merged into this one
  std::uint32_t stored_end = 0;
  std::int64_t own_count = 1;
  std::uint32_t merged_next = kNone;  // in Core::merged_types_

  static constexpr std::uint32_t kNone =
      std::numeric_limits<std::uint32_t>::max();
};

// Finds the core: the items of each front other than its base that lose at most
// `gap`, the smallest loss first.
void FindCore(const Relaxation& relaxation, Wide gap,
              std::pmr::vector<CoreType>* types,
              std::pmr::vector<Deviation>* deviations);

class Core {
 public:
  // `relaxation`, whose memory resource the core uses, must outlive it. Costs
  // of better solutions differ by multiples of `cost_step`.
  Core(const Relaxation& relaxation, std::pmr::vector<CoreType> types,
       std::pmr::vector<Deviation> deviations, std::int64_t cost_step,
       const Limits& limits);

  // Searches for solutions that add less than `cost` to the relaxation's bases.
  void Search(std::int64_t cost);

  bool improved() const { return improved_; }
  // False if a limit stopped the search.
  bool proven() const { return proven_; }
  // The best solution relative to the bases: its cost, weight and changes.
  std::int64_t cost() const { return best_.cost; }
  std::int64_t weight() const { return best_.weight; }
  std::pmr::vector<Change> changes() const;
  // A lower bound on what any solution adds to the cost of the bases; of use if
  // the search ended before it was proven optimal.
  std::int64_t open_bound() const { return open_bound_; }
  std::int64_t nodes() const { return nodes_made_; }

 private:
  static constexpr std::uint32_t kNoNode =
      std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint32_t kUnchanged = kNoNode;

  struct State {
    std::int64_t excess = 0;  // weight above what the capacity leaves
    std::int64_t cost = 0;
    std::uint32_t node = kNoNode;
    std::uint32_t deviation = kUnchanged;  // not yet in `node`
    std::int64_t copies = 1;               // of `deviation`
  };
  // How a state came about.
  struct Node {
    std::uint32_t parent = kNoNode;
    std::uint32_t deviation = 0;
    std::int64_t copies = 0;
  };
  struct Best {
    std::int64_t cost = 0;
    std::int64_t weight = 0;
    std::uint32_t node = kNoNode;
    std::uint32_t deviation = 0;  // `extra` copies on top of `node`
    std::int64_t extra = 0;
  };
  struct Slope {  // cost per weight
    std::int64_t cost = 0;
    std::int64_t weight = 1;  // 0: infinite
  };
  // A deviation without loss that further copies of a type may take.
  struct Pending {
    std::uint32_t deviation = 0;
    std::int64_t copies = 0;
  };
  // The best slopes of the remaining classes.
  struct Outlook {
    Slope save;  // the most that a unit of added weight can save
    Slope shed;  // the least that removing a unit of weight can cost
  };

  static bool Less(const Slope& a, const Slope& b) {
    return Wide{a.cost} * b.weight < Wide{b.cost} * a.weight;
  }

  void MergeAlikeTypes();
  void SortTypes();
  Outlook OutlookOf(const CoreType& type) const;
  void UpdateOutlooks();
  void ShrinkToGap();
  Wide Gap() const;
  // Whether a state may lead to a solution better than the best so far: if it
  // fits, the room it leaves is worth at most the best remaining slope; if not,
  // the excess must be shed.
  auto PromisingTest(const Outlook& outlook) const {
    return [most = best_.cost - cost_step_, save = outlook.save,
            shed = outlook.shed](std::int64_t excess, std::int64_t cost) {
      const Slope& slope = excess <= 0 ? save : shed;
      return slope.weight != 0 &&
             Wide{excess} * slope.cost <= Wide{most - cost} * slope.weight;
    };
  }
  void SearchType(std::size_t position);
  void Step(const CoreType& type, const Outlook& outlook,
            const Pending& pending);
  void StepByCount(std::uint32_t deviation, std::int64_t count,
                   const Outlook& outlook);
  void Shift(std::uint32_t deviation, bool first, const Outlook& outlook);
  void Finish(const Outlook& outlook, const Pending& pending);
  void LookAhead();
  void Offer(const State& state, std::uint32_t deviation, std::int64_t extra);
  bool OutOfLimits();
  void Abandon();

  const Relaxation& relaxation_;
  std::pmr::vector<CoreType> types_;
  std::pmr::vector<CoreType> merged_types_;
  std::pmr::vector<Deviation> deviations_;
  std::pmr::vector<Outlook> outlooks_;  // of the types from a position on
  std::int64_t cost_step_;
  const Limits& limits_;

  std::pmr::vector<State> states_;  // by rising excess and falling cost
  std::pmr::vector<State> merged_;  // of the step under way
  std::pmr::vector<State> scratch_;
  std::pmr::vector<Node> nodes_;
  Best best_;
  Wide shrunk_to_ = 0;
  std::size_t position_ = 0;  // of the type being searched
  std::int64_t nodes_made_ = 0;
  std::int64_t next_look_ahead_ = 256;  // in nodes made
  std::int64_t open_bound_ = 0;
  bool improved_ = false;
  bool proven_ = true;
  bool stopped_ = false;
};

}  // namespace ucudnn::mckp_internal

#endif  // UCUDNN_SOLVER_KNAPSACK_CORE_H_
