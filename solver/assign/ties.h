#ifndef UCUDNN_SOLVER_ASSIGN_TIES_H_
#define UCUDNN_SOLVER_ASSIGN_TIES_H_

// Among the assignments with a feasible makespan and a given number of GPUs,
// finds one with the least total time, for solver/assign.
//
// Let v be the N-th largest of the GPUs' largest batches. If the N GPUs with
// the largest ones take part, each with its largest batch, the sum exceeds B
// by the excess E. Any other choice gives some of it back:
//
//   a GPU of those N with batch b gives        largest - b
//   a GPU of those N left out gives            largest - v
//   another GPU that takes part with b gives   v - b
//
// none of them negative, and together exactly E. The states of the dynamic
// programme are the amount given back and how many more GPUs are out than in.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "solver/assign/kinds.h"

namespace ucudnn::assign_internal {

class Ties {
 public:
  // `kinds` must outlive it; at most `max_steps` additions are made.
  Ties(std::span<const GpuKind> kinds, std::int64_t batch,
       std::int64_t max_steps)
      : kinds_(kinds), batch_(batch), steps_left_(max_steps) {}

  // Batches for exactly `gpus` GPUs that each take at most `time`, with the
  // least total time: one for each GPU of each kind, kind after kind. Absent if
  // there are none. kResourceExhausted once all calls together exceed
  // `max_steps`.
  Result<std::optional<std::vector<std::int64_t>>> Solve(std::int64_t time,
                                                         std::int64_t gpus);

  // The fewest GPUs whose largest batches within `time` sum to B or more;
  // absent if even all of them do not.
  std::optional<std::int64_t> FewestForMost(std::int64_t time) const;

  // The least time at which `gpus` GPUs' largest batches sum to B or more.
  std::optional<std::int64_t> LeastTimeForMost(std::int64_t gpus) const;

 private:
  // A batch that a GPU of a kind may take, and what it thereby gives back.
  struct Option {
    std::int64_t given = 0;
    std::int64_t time = 0;
    std::int64_t batch = 0;
  };
  struct Ranked {
    std::size_t kind = 0;
    std::int64_t largest = 0;
  };

  // Kinds that can use some batch, by falling largest batch.
  std::vector<Ranked> Rank(std::int64_t time) const;
  std::vector<Option> Options(const GpuKind& kind, std::int64_t time,
                              std::int64_t from, std::int64_t excess) const;

  std::span<const GpuKind> kinds_;
  std::int64_t batch_;
  std::int64_t steps_left_;
};

}  // namespace ucudnn::assign_internal

#endif  // UCUDNN_SOLVER_ASSIGN_TIES_H_
