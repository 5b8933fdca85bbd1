#ifndef UCUDNN_SOLVER_ASSIGN_KINDS_H_
#define UCUDNN_SOLVER_ASSIGN_KINDS_H_

// The GPUs of an assignment as kinds, and which makespans they can hold, for
// solver/assign.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "base/result.h"
#include "solver/assign.h"

namespace ucudnn::assign_internal {

// GPUs that are alike. `costs` are the batches they may use, by rising batch.
struct Kind {
  std::vector<std::size_t> gpus;
  std::span<const BatchCost> costs;
  std::vector<BatchCost> own_costs;  // where `costs` is not a whole table
  // The least time of batch i * kBlock of `costs` or any later one: never
  // falls. One for each block, since large tables cost what memory they touch.
  static constexpr std::size_t kBlock = 16;
  std::vector<std::int64_t> least_from;

  std::int64_t count() const { return std::ssize(gpus); }
  // Where the largest batch within `time` stands in `costs`, plus one; 0 if
  // every batch takes longer. O(log |costs| + kBlock).
  std::size_t LargestWithin(std::int64_t time) const;
  std::int64_t LargestBatchWithin(std::int64_t time) const {
    const std::size_t end = LargestWithin(time);
    return end == 0 ? 0 : costs[end - 1].batch.count();
  }
};

// With the batches up to `largest`. Errors: those of SolveAssignment for the
// problem itself. Kinds that can use no batch are included.
Result<std::vector<Kind>> MakeKinds(const AssignProblem& problem,
                                    BatchSize largest);

// The least time that is enough, where what is enough stays so for all larger
// times and changes only with some kind's largest batch; absent if none is.
// Expected O(kinds + log |costs|) calls.
std::optional<std::int64_t> LeastEnough(
    std::span<const Kind> kinds,
    const std::function<bool(std::int64_t)>& enough);

// A row of bits, set where a sum can be reached.
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
  // False if that changes nothing.
  bool AddOneOf(std::span<const Run> runs);
  bool operator==(const Sums&) const = default;

 private:
  std::int64_t largest_;
  std::vector<std::uint64_t> words_;
};

// Answers whether a makespan can be held. Not for several threads at once.
class Reach {
 public:
  // `kinds` must outlive it.
  Reach(std::span<const Kind> kinds, std::int64_t batch)
      : kinds_(kinds), batch_(batch) {}

  // The sum of the largest batches within `time`.
  std::int64_t Most(std::int64_t time) const;
  // Whether batches within `time` sum to B.
  bool CanHold(std::int64_t time) const;
  // The least time whose largest batches sum to B or more; absent if none.
  std::optional<std::int64_t> LeastTimeForMost() const;
  // The least time that can be held; absent if none. kCancelled if stopped.
  Result<std::optional<std::int64_t>> LeastTime(std::stop_token stop) const;
  // Batches within `time`, which can be held, that sum to B: one for each GPU
  // of each kind, kind after kind.
  std::vector<std::int64_t> AnyWithin(std::int64_t time) const;
  // The nearest sums below and above B that all batches can reach; 0 if none.
  struct Nearest {
    std::int64_t below = 0;
    std::int64_t above = 0;
  };
  Nearest NearestSums() const;

 private:
  // What a GPU of each kind adds to the sum that is looked for, as runs: what
  // it takes back from its largest batch, or the batch itself.
  struct Question {
    bool from_most = false;
    std::int64_t target = 0;
    std::vector<std::vector<Sums::Run>> runs;
  };
  Question Ask(std::int64_t time) const;

  std::span<const Kind> kinds_;
  std::int64_t batch_;
};

}  // namespace ucudnn::assign_internal

#endif  // UCUDNN_SOLVER_ASSIGN_KINDS_H_
