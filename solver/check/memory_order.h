#ifndef UCUDNN_SOLVER_CHECK_MEMORY_ORDER_H_
#define UCUDNN_SOLVER_CHECK_MEMORY_ORDER_H_

// Which events of a round have certainly ended when another one starts, by
// streams and `after` alone: a clock for each event that counts, stream by
// stream, the events that precede it.

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "base/units.h"

namespace ucudnn::memory_check {

class EventOrder {
 public:
  // Fails with the first of the rules R2 to R5 that an event breaks, and R23
  // unless the round ends with its last event.
  static Result<EventOrder> Of(const MemoryRound& round,
                               const TrainingGraph& graph);

  // Whether event `a` has certainly ended when `b` starts.
  bool Before(std::size_t a, std::size_t b) const {
    return a != b && ended_[b][streams_[a]] > places_[a];
  }
  Nanoseconds finish() const { return finish_; }

 private:
  using Clock = std::array<std::size_t, kMemoryStreams.size()>;

  Status Add(const MemoryRound& round, const TrainingGraph& graph);

  // By event: of each stream how many events have ended before it starts; its
  // stream, and its place there.
  std::vector<Clock> ended_;
  std::vector<std::size_t> streams_;
  std::vector<std::size_t> places_;
  std::array<std::optional<std::size_t>, kMemoryStreams.size()> last_;
  Nanoseconds finish_{0};
};

}  // namespace ucudnn::memory_check

#endif  // UCUDNN_SOLVER_CHECK_MEMORY_ORDER_H_
