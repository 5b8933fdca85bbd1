#include "solver/memory/placement.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "solver/arena/allocation.h"
#include "solver/memory/range_owners.h"

namespace ucudnn {
namespace {

constexpr std::size_t kResident = static_cast<std::size_t>(-1);

// A range that a round takes: by an allocation, a workspace, or from its start.
struct Taken {
  std::size_t event = kResident;
  std::size_t resident = 0;  // in plan->resident
  std::size_t until = 0;     // the first event at which it is free again
};

// Everything that the round places, with lifetimes in places of its list.
std::vector<Taken> TakenBy(const MemoryRound& round, const MemoryPlan& plan,
                           const std::vector<bool>& fixed, std::size_t blocks) {
  const std::size_t end = round.events.size();
  std::vector<Taken> list;
  std::vector<std::optional<std::size_t>> of(blocks);  // a block's, in `list`
  for (std::size_t i = 0; i < plan.resident.size(); ++i) {
    if (fixed[i]) continue;
    of[plan.resident[i].block] = list.size();
    list.push_back({kResident, i, end});
  }
  for (std::size_t i = 0; i < end; ++i) {
    const MemoryEvent& event = round.events[i];
    if (event.op == EventOp::kAlloc) {
      of[event.block] = list.size();
      list.push_back({i, 0, end});
    } else if (event.op == EventOp::kFree && of[event.block]) {
      list[*of[event.block]].until = i;
    } else if (event.op == EventOp::kCompute && event.range.bytes > Bytes(0)) {
      std::size_t until = i + 1;
      while (until < end && round.events[until].start < event.end()) ++until;
      list.push_back({i, 0, until});
    }
  }
  return list;
}

// Adds the waits that the addresses need.
class WaitAdder {
 public:
  WaitAdder(const MemoryPlan& plan, std::size_t blocks) : of_(blocks) {
    for (const ResidentBlock& resident : plan.resident) {
      of_[resident.block] = Own(resident.range);
    }
  }

  void Add(MemoryRound* round) {
    std::array<std::optional<std::size_t>, kMemoryStreams.size()> last;
    clocks_.resize(round->events.size());
    positions_.resize(round->events.size());
    for (std::size_t i = 0; i < round->events.size(); ++i) {
      MemoryEvent& event = round->events[i];
      const auto stream = static_cast<std::size_t>(event.stream);
      Clock& clock = clocks_[i];
      if (last[stream]) {
        clock = clocks_[*last[stream]];
        positions_[i] = positions_[*last[stream]] + 1;
        clock[stream] = positions_[i];
      }
      last[stream] = i;
      for (const std::size_t after : event.after) {
        Merge(round->events[after], after, &clock);
      }
      const bool takes =
          event.op == EventOp::kAlloc ||
          (event.op == EventOp::kCompute && event.range.bytes > Bytes(0));
      if (takes) {
        std::vector<std::size_t> waits;
        const std::size_t own = Own(event.range, &waits);
        if (event.op == EventOp::kAlloc) {
          of_[event.block] = own;
        } else {
          released_[own] = i;
        }
        std::sort(waits.rbegin(), waits.rend());
        for (const std::size_t wait : waits) {
          const MemoryEvent& other = round->events[wait];
          const auto theirs = static_cast<std::size_t>(other.stream);
          if (clock[theirs] > positions_[wait]) continue;
          event.after.push_back(wait);
          Merge(other, wait, &clock);
        }
        std::ranges::sort(event.after);
      } else if (event.op == EventOp::kFree) {
        released_[*of_[event.block]] = i;
      }
    }
  }

 private:
  using Clock = std::array<std::size_t, kMemoryStreams.size()>;

  void Merge(const MemoryEvent& other, std::size_t index, Clock* clock) const {
    for (std::size_t s = 0; s < clock->size(); ++s) {
      (*clock)[s] = std::max((*clock)[s], clocks_[index][s]);
    }
    std::size_t& own = (*clock)[static_cast<std::size_t>(other.stream)];
    own = std::max(own, positions_[index] + 1);
  }

  std::size_t Own(MemoryRange range,
                  std::vector<std::size_t>* waits = nullptr) {
    const std::size_t own = released_.size();
    released_.emplace_back();
    for (const std::size_t other : owners_.Claim(
             range.offset.count(), (range.offset + range.bytes).count(), own)) {
      UCUDNN_CHECK(waits != nullptr && released_[other].has_value());
      waits->push_back(*released_[other]);
    }
    return own;
  }

  RangeOwners owners_;
  std::vector<std::optional<std::size_t>> released_;  // by owner
  std::vector<std::optional<std::size_t>> of_;        // owner by block
  std::vector<Clock> clocks_;
  std::vector<std::size_t> positions_;
};

}  // namespace

Status PlaceStatically(const Rounds& rounds, const Limits& limits,
                       MemoryPlan* plan) {
  const std::size_t blocks = rounds.models.front().size.size();
  const bool one_round =
      rounds.models.size() == 1 && rounds.counts.front() == 1;
  std::vector<bool> fixed;
  Bytes base;
  for (const ResidentBlock& resident : plan->resident) {
    fixed.push_back(!one_round ||
                    !rounds.models.front().IsInput(resident.block));
    if (fixed.back()) {
      base = std::max(base, resident.range.offset + resident.range.bytes);
    }
  }
  base = RoundUp(base, plan->alignment);
  const Bytes room = plan->budget - base;
  for (MemoryRound& round : plan->rounds) {
    const std::vector<Taken> taken = TakenBy(round, *plan, fixed, blocks);
    std::vector<Buffer> buffers;
    for (const Taken& t : taken) {
      buffers.push_back(
          {t.event == kResident ? 0 : static_cast<std::int64_t>(t.event) + 1,
           static_cast<std::int64_t>(t.until) + 1,
           t.event == kResident ? plan->resident[t.resident].range.bytes
                                : round.events[t.event].range.bytes});
    }
    if (room <= Bytes(0)) {
      return Fail(Code::kFailedPrecondition,
                  "the blocks that stay take {} of the budget of {}",
                  HumanBytes(base), HumanBytes(plan->budget));
    }
    AllocationOptions options;
    options.alignment = plan->alignment;
    options.capacity = room;
    UCUDNN_ASSIGN_OR_RETURN(const Allocation allocation,
                            Allocate(buffers, options, limits));
    for (std::size_t i = 0; i < taken.size(); ++i) {
      MemoryRange& range = taken[i].event == kResident
                               ? plan->resident[taken[i].resident].range
                               : round.events[taken[i].event].range;
      range.offset = base + allocation.offsets[i];
    }
    WaitAdder(*plan, blocks).Add(&round);
  }
  return {};
}

}  // namespace ucudnn
