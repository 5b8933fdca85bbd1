#ifndef UCUDNN_SOLVER_ASSIGN_REACH_H_
#define UCUDNN_SOLVER_ASSIGN_REACH_H_

// Which makespans are feasible for the GPUs of an assignment, for
// solver/assign.

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "base/result.h"
#include "solver/assign/kinds.h"

namespace ucudnn::assign_internal {

// A bit set of reachable sums.
class Sums {
 public:
  explicit Sums(std::int64_t largest)
      : largest_(largest), words_(static_cast<std::size_t>(largest / 64) + 1) {
    words_[0] = 1;
  }
  bool Has(std::int64_t sum) const {
    return ((words_[static_cast<std::size_t>(sum / 64)] >> (sum % 64)) & 1U) !=
           0;
  }
  std::int64_t largest() const { return largest_; }
  // Adds one of the numbers in [first, last], or nothing, to every sum.
  struct Run {
    std::int64_t first = 0;
    std::int64_t last = 0;
  };
  // Returns whether that changed anything.
  bool AddOneOf(std::span<const Run> runs);
  bool operator==(const Sums&) const = default;

 private:
  std::int64_t largest_;
  std::vector<std::uint64_t> words_;
};

// Decides whether a makespan is feasible. Not thread-safe.
class Reach {
 public:
  // `kinds` must outlive it.
  Reach(std::span<const GpuKind> kinds, std::int64_t batch)
      : kinds_(kinds), batch_(batch) {}

  // The sum of the largest batches within `time`.
  std::int64_t Most(std::int64_t time) const;
  // Whether batches within `time` sum to B.
  bool CanHold(std::int64_t time) const;
  // The least time whose largest batches sum to B or more; absent if none.
  std::optional<std::int64_t> LeastTimeForMost() const;
  // The least feasible time; absent if none is. kCancelled if stopped.
  Result<std::optional<std::int64_t>> LeastTime(std::stop_token stop) const;
  // Batches within the feasible `time` that sum to B: one for each GPU of each
  // kind, kind after kind.
  std::vector<std::int64_t> AnyWithin(std::int64_t time) const;
  // The nearest reachable sums below and above B, over all batches; 0 if none.
  struct Nearest {
    std::int64_t below = 0;
    std::int64_t above = 0;
  };
  Nearest NearestSums() const;

 private:
  // What a GPU of each kind can add to the target sum, as runs: what it takes
  // back from its largest batch or, if not `from_most`, the batch itself.
  struct Question {
    bool from_most = false;
    std::int64_t target = 0;
    std::vector<std::vector<Sums::Run>> runs;
  };
  Question Ask(std::int64_t time) const;

  std::span<const GpuKind> kinds_;
  std::int64_t batch_;
};

}  // namespace ucudnn::assign_internal

#endif  // UCUDNN_SOLVER_ASSIGN_REACH_H_
