#ifndef UCUDNN_SOLVER_CHECK_MEMORY_HOST_H_
#define UCUDNN_SOLVER_CHECK_MEMORY_HOST_H_

// The blocks' copies on the host: who left them as they are, and who may still
// use them, R18.

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "base/units.h"
#include "solver/check/memory_order.h"

namespace ucudnn::memory_check {

// What left a block as it is: a task, or one of these.
using Version = std::size_t;
inline constexpr Version kStart = static_cast<Version>(-1);    // the round
inline constexpr Version kNothing = static_cast<Version>(-2);  // nobody yet

class HostCopies {
 public:
  // All must outlive this.
  HostCopies(const MemoryRound& round, const TrainingGraph& graph,
             const EventOrder& order);

  // The block has a copy from the round's start.
  void Begin(std::size_t block);
  // kNothing if there is no copy.
  Version Of(std::size_t block) const { return copies_[block].version; }
  // Event `i` reads the copy: fails unless whatever wrote it has ended.
  Status Read(std::size_t i, std::size_t block);
  // Event `i` replaces the copy: fails unless all that used it has ended.
  Status Write(std::size_t i, std::size_t block, Version version);

  // Sizes of the blocks that have or had a copy, but for inputs, which are on
  // the host anyway.
  const std::map<std::size_t, Bytes>& sizes() const { return sizes_; }

 private:
  struct Copy {
    Version version = kNothing;
    std::optional<std::size_t> writer;  // an event
    std::vector<std::size_t> readers;   // events since then
  };

  void Count(std::size_t block);

  const MemoryRound& round_;
  const TrainingGraph& graph_;
  const EventOrder& order_;
  std::vector<Copy> copies_;  // by block
  std::map<std::size_t, Bytes> sizes_;
};

}  // namespace ucudnn::memory_check

#endif  // UCUDNN_SOLVER_CHECK_MEMORY_HOST_H_
