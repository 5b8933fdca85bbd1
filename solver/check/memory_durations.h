#ifndef UCUDNN_SOLVER_CHECK_MEMORY_DURATIONS_H_
#define UCUDNN_SOLVER_CHECK_MEMORY_DURATIONS_H_

// Whether the events of a round take what the graph says, R6 to R8, and share
// the link, R9.

#include <cstdint>
#include <limits>

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"

namespace ucudnn::memory_check {

// Adds `count` times the value. Plans from outside may state any number: sums
// stop at the largest.
template <class Quantity>
void Add(Quantity value, std::int64_t count, Quantity* sum) {
  std::int64_t product = 0;
  std::int64_t total = 0;
  if (__builtin_mul_overflow(value.count(), count, &product) ||
      __builtin_add_overflow(sum->count(), product, &total)) {
    total = std::numeric_limits<std::int64_t>::max();
  }
  *sum = Quantity(total);
}

// The first event that breaks one of R6 to R8, else the first that breaks R9.
// Events keep R2 and R5.
Status CheckDurations(const MemoryRound& round, const TrainingGraph& graph);

}  // namespace ucudnn::memory_check

#endif  // UCUDNN_SOLVER_CHECK_MEMORY_DURATIONS_H_
