#ifndef UCUDNN_SOLVER_MEMORY_ROUND_DRAFT_H_
#define UCUDNN_SOLVER_MEMORY_ROUND_DRAFT_H_

// One round that a policy plans: a timeline, and a memory manager that decides
// where its blocks lie. What policies have in common; each brings the order.
//
//   RoundDraft draft(round, residents, budget, fit, unit);
//   if (!draft.Alloc(y, kCompute)) ...        // no room now
//   const auto space = draft.TakeWorkspace(Bytes(n));
//   draft.Compute(task, run, *space);
//   draft.ReturnWorkspace(*space);
//   draft.Free(x, kCompute);

#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/training/memory_plan.h"
#include "solver/memory/memory_pool.h"
#include "solver/memory/round_model.h"
#include "solver/memory/timeline.h"

namespace ucudnn {

// Which blocks are on the device when a round starts, and where. Persistent
// blocks first, each in the graph's order, then inputs, from the lowest address
// up, aligned to `unit`; sizes are those of the largest round. `rounds` is not
// empty.
std::vector<ResidentBlock> PlaceResidents(const std::vector<RoundModel>& rounds,
                                          Bytes unit);
// The end of the last of them.
Bytes EndOf(const std::vector<ResidentBlock>& residents);

class RoundDraft {
 public:
  using Event = Timeline::Event;
  using Events = Timeline::Events;

  // `residents` fit into the pool, whose capacity is the budget.
  // `round` must outlive the draft. Unless `placed`, the pool's addresses
  // guide decisions only, and the timeline leaves them open.
  RoundDraft(const RoundModel& round,
             const std::vector<ResidentBlock>& residents, Bytes budget,
             MemoryPool::Fit fit, Bytes unit, bool placed = true);

  const RoundModel& round() const { return round_; }
  Timeline& timeline() { return timeline_; }
  MemoryPool& pool() { return pool_; }

  // Allocates the block on the stream, after the events; false if there is no
  // room at that moment.
  bool Alloc(std::size_t block, MemoryStream stream, Events after = {});
  // The same, but waits for as many pending releases as it takes.
  bool AllocWaiting(std::size_t block, MemoryStream stream, Events after = {});

  // Allocates the block in a range that was taken from the pool.
  void AllocIn(MemoryRange range, std::size_t block, MemoryStream stream,
               Events after = {});
  // The range of a block on the device.
  MemoryRange RangeOf(std::size_t block) const { return ranges_[block]; }

  // Frees the block on the stream, after the events and all its uses. Its range
  // can be taken from then on.
  Event Free(std::size_t block, MemoryStream stream, Events after = {});

  // Room for a workspace from now on (on kCompute) until ReturnWorkspace.
  std::optional<MemoryRange> TakeWorkspace(Bytes bytes);
  void ReturnWorkspace(MemoryRange range);

  // Runs the task with its workspace at the start of `workspace`.
  Event Compute(std::size_t task, const TaskRun& run, MemoryRange workspace,
                Events after = {});

  // Allocates all blocks that the task writes and that are not on the device;
  // kFailedPrecondition if there is no room.
  Status AllocOutputs(std::size_t task, bool waiting);

  // kFailedPrecondition, as the budget has no room for something.
  tl::unexpected<Error> NoRoomFor(std::string_view what) const;

  // Frees, on kCompute, every block that no task from place `position` of the
  // round on uses, unless it is persistent or an input that stays resident.
  void FreeDead(std::size_t position);

 private:
  // As the timeline takes it: absent where addresses stay open.
  std::optional<Bytes> OffsetOf(MemoryRange range) const {
    return placed_ ? std::optional<Bytes>(range.offset) : std::nullopt;
  }

  const RoundModel& round_;
  const Bytes budget_;
  MemoryPool pool_;
  const bool placed_;
  Timeline timeline_;
  std::vector<MemoryRange> ranges_;  // of blocks on the device
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_ROUND_DRAFT_H_
