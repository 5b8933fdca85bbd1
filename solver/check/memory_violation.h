#ifndef UCUDNN_SOLVER_CHECK_MEMORY_VIOLATION_H_
#define UCUDNN_SOLVER_CHECK_MEMORY_VIOLATION_H_

// How the checks of memory plans (solver/check/memory_plan.h) say which rule is
// broken and where.

#include <cstddef>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"

namespace ucudnn::memory_check {

// "R14 event 17 (alloc conv3.Y on compute): ...".
template <class... Args>
tl::unexpected<Error> Violation(int rule, const std::string& where,
                                fmt::format_string<Args...> format,
                                Args&&... args) {
  return Fail(Code::kInternal, "R{} {}: {}", rule, where,
              fmt::format(format, std::forward<Args>(args)...));
}

// "event 17 (alloc conv3.Y on compute)", of an event that keeps R2.
inline std::string EventName(const MemoryRound& round,
                             const TrainingGraph& graph, std::size_t i) {
  const MemoryEvent& event = round.events[i];
  std::string what(Name(event.op));
  if (event.op == EventOp::kCompute) {
    what += " " + graph.tasks[event.task].name;
  } else if (event.op != EventOp::kSync) {
    what += " " + graph.blocks[event.block].name;
  }
  return fmt::format("event {} ({} on {})", i, what, Name(event.stream));
}

inline bool IsTransfer(EventOp op) {
  return op == EventOp::kOffload || op == EventOp::kPrefetch;
}

}  // namespace ucudnn::memory_check

#endif  // UCUDNN_SOLVER_CHECK_MEMORY_VIOLATION_H_
