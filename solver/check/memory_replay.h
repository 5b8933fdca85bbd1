#ifndef UCUDNN_SOLVER_CHECK_MEMORY_REPLAY_H_
#define UCUDNN_SOLVER_CHECK_MEMORY_REPLAY_H_

// One round of a memory plan, replayed: who may use which memory and finds
// which data there, R10 to R22.

#include <cstddef>
#include <map>

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "base/units.h"
#include "solver/check/memory_order.h"

namespace ucudnn::memory_check {

struct ReplayedRound {
  Bytes peak;
  Bytes load;
  Nanoseconds computing{0};
  Bytes offloaded;
  Bytes prefetched;
  std::map<std::size_t, Bytes> on_host;  // sizes of blocks, but for inputs
};

// Among all rounds of the iteration.
struct RoundPlace {
  bool last = true;
  bool accumulates = false;  // gradients, over several rounds
};

// Fails with the first rule that an event breaks. `order` is the round's, whose
// durations are right.
Result<ReplayedRound> ReplayRound(const MemoryPlan& plan,
                                  const MemoryRound& round, RoundPlace place,
                                  const TrainingGraph& graph,
                                  const EventOrder& order);

}  // namespace ucudnn::memory_check

#endif  // UCUDNN_SOLVER_CHECK_MEMORY_REPLAY_H_
