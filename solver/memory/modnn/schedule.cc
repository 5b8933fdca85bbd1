#include "solver/memory/modnn/schedule.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "solver/memory/memory_pool.h"
#include "solver/memory/modnn/host_updates.h"
#include "solver/memory/modnn/schemes.h"
#include "solver/memory/request.h"
#include "solver/memory/round_draft.h"

namespace ucudnn {
namespace {

using MemoryStream::kCompute;
using MemoryStream::kCopy;

class ModnnRound {
 public:
  ModnnRound(const RoundModel& round, const ModnnRoundOptions& options)
      : round_(round),
        draft_(round, options.residents, options.budget,
               MemoryPool::Fit::kExactThenFirst, kPlanAlignment,
               options.placed),
        host_updates_(round),
        room_(options.budget),
        stays_(round.persistent),
        used_(stays_.size()) {
    for (const ResidentBlock& gradient : options.gradients) {
      draft_.pool().TakeAt(gradient.range);
      draft_.AllocIn(gradient.range, gradient.block, kCompute);
      stays_[gradient.block] = true;
    }
    for (std::size_t i = 0; i < stays_.size(); ++i) {
      if (stays_[i]) room_ -= round.size[i];
    }
    fastest_.push_back(Nanoseconds(0));
    for (const std::size_t task : round.tasks) {
      blocks_.push_back(round.BlocksOf(task));
      fastest_.push_back(fastest_.back() + round.costs[task].back().time);
    }
  }

  // Algorithm 1.
  Result<MemoryRound> Plan() {
    for (std::size_t t = 0; t < round_.tasks.size(); ++t) {
      const std::size_t task = round_.tasks[t];
      if (round_.graph->tasks[task].kind == TaskKind::kHostUpdate) continue;
      const TaskCost* cost = Prepare(t) ? ChooseAlgorithm(t) : nullptr;
      if (cost == nullptr) {
        Defragment();
        cost = Prepare(t) ? ChooseAlgorithm(t) : nullptr;
      }
      if (cost == nullptr) {
        return draft_.NoRoomFor(round_.graph->tasks[task].name);
      }
      TakeWorkspace(cost->workspace, t);
      PrefetchDuring(t);
      draft_.Compute(task, Undivided(*cost, round_.batch), workspace_);
      draft_.ReturnWorkspace(std::exchange(workspace_, {}));
      MarkUses(task);
      draft_.FreeDead(t + 1);
      host_updates_.After(t, &timeline());
    }
    host_updates_.Finish(&timeline());
    // Gradients that the host has read.
    for (std::size_t block = 0; block < stays_.size(); ++block) {
      if (timeline().OnDevice(block) && !round_.persistent[block]) {
        draft_.Free(block, kCopy);
      }
    }
    return timeline().Finish();
  }

 private:
  // The tasks at places [from, to] of the round.
  struct Span {
    std::size_t from;
    std::size_t to;
  };
  // A range of the pool, and the blocks that must leave it.
  struct Room {
    MemoryRange range;
    std::vector<std::size_t> blocks;
    Nanoseconds delay{0};
  };

  Timeline& timeline() { return draft_.timeline(); }
  // T: kCompute has nothing to do before it.
  Nanoseconds Now() { return timeline().Now(kCompute); }

  bool UsedIn(std::size_t block, Span span) const {
    const std::vector<std::size_t>& uses = round_.uses[block];
    const auto use = std::ranges::lower_bound(uses, span.from);
    return use != uses.end() && *use <= span.to;
  }

  // The two criteria of 5.2.1, where room is made during `span`.
  bool Evictable(std::size_t block, Span span) const {
    return !stays_[block] && used_[block] && !UsedIn(block, span);
  }

  // The pool by address, with what may leave during `span`.
  std::vector<PoolSegment> Segments(Span span) {
    using Kind = PoolSegment::Kind;
    std::vector<PoolSegment> segments;
    for (const auto& [offset, bytes] : draft_.pool().FreeRanges(Now())) {
      segments.push_back({{Bytes(offset), Bytes(bytes)}, Kind::kFree});
    }
    for (const MemoryPool::Pending& pending : draft_.pool().Releases()) {
      segments.push_back({pending.range, Kind::kFree, pending.when});
    }
    for (std::size_t block = 0; block < stays_.size(); ++block) {
      if (!timeline().OnDevice(block) || round_.size[block] == Bytes(0)) {
        continue;
      }
      PoolSegment segment{draft_.RangeOf(block)};
      segment.block = block;
      if (Evictable(block, span)) {
        segment.kind = Kind::kEvictable;
        for (const Timeline::Event writer : timeline().Writer(block)) {
          segment.ready = timeline().End(writer);
        }
        if (!timeline().OnHost(block)) {
          segment.copy = round_.graph->device.OffloadTime(round_.size[block]);
        }
      }
      segments.push_back(segment);
    }
    if (workspace_.bytes > Bytes(0)) segments.push_back({workspace_});
    std::ranges::sort(segments, {}, [](const PoolSegment& segment) {
      return segment.range.offset;
    });
    // Sizes are rounded up to where the next one starts.
    for (std::size_t i = 1; i < segments.size(); ++i) {
      segments[i - 1].range.bytes =
          segments[i].range.offset - segments[i - 1].range.offset;
    }
    return segments;
  }

  void Evict(std::size_t block, MemoryStream stream) {
    if (!timeline().OnHost(block)) timeline().Offload(block, kCopy);
    draft_.Free(block, stream);
    away_.insert(block);
  }

  // Where `size` bytes are free, else by the cheapest offload scheme.
  std::optional<Room> FindRoom(Bytes size, Span span) {
    if (const auto range = draft_.pool().Find(size, Now())) {
      return Room{*range, {}};
    }
    std::optional<OffloadScheme> scheme =
        FindOffloadScheme(Segments(span), size, timeline().Now(kCopy), Now());
    if (!scheme) return std::nullopt;
    return Room{{scheme->offset, Aligned(size)},
                std::move(scheme->blocks),
                scheme->delay};
  }

  // Takes it; blocks are freed on `stream`. Returns the releases to wait for.
  Timeline::Events TakeRoom(const Room& room, MemoryStream stream) {
    for (const std::size_t block : room.blocks) Evict(block, stream);
    Timeline::Events releases;
    for (const MemoryPool::Pending& pending : draft_.pool().Releases()) {
      if (Overlap(pending.range, room.range)) releases.push_back(pending.event);
    }
    draft_.pool().TakeReleased(room.range);
    return releases;
  }

  static bool Overlap(MemoryRange a, MemoryRange b) {
    return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  }

  bool Alloc(std::size_t block, Span span, MemoryStream stream,
             Timeline::Events after) {
    const std::optional<Room> room = FindRoom(round_.size[block], span);
    if (!room) return false;
    const Timeline::Events releases = TakeRoom(*room, stream);
    after.insert(after.end(), releases.begin(), releases.end());
    draft_.AllocIn(room->range, block, stream, std::move(after));
    used_[block] = false;
    return true;
  }

  void Fetch(std::size_t block) {
    timeline().Prefetch(block, kCopy);
    away_.erase(block);
  }

  // Lines 3 to 8: all blocks of the task are on the device at T. False if that
  // takes a defragmentation.
  bool Prepare(std::size_t t) {
    const std::size_t task = round_.tasks[t];
    for (const std::size_t block : blocks_[t]) {
      if (!timeline().OnDevice(block) && !Alloc(block, {t, t}, kCompute, {})) {
        return false;
      }
    }
    Timeline::Events arrivals;
    for (const std::size_t block : round_.reads[task]) {
      if (!timeline().HoldsData(block)) Fetch(block);
      for (const Timeline::Event writer : timeline().Writer(block)) {
        if (timeline().End(writer) > Now()) arrivals.push_back(writer);
      }
    }
    if (!arrivals.empty()) timeline().Sync(kCompute, std::move(arrivals));
    return true;
  }

  // Everything leaves that may (5.2.1), so that memory is one piece.
  void Defragment() {
    for (std::size_t block = 0; block < stays_.size(); ++block) {
      if (!timeline().OnDevice(block) || stays_[block]) continue;
      if (timeline().HoldsData(block)) {
        Evict(block, kCompute);
      } else {
        draft_.Free(block, kCompute);
      }
    }
  }

  // Equation (10), lines 9 to 11. Null if no algorithm's workspace finds room.
  const TaskCost* ChooseAlgorithm(std::size_t t) {
    const std::vector<TaskCost>& costs = round_.costs[round_.tasks[t]];
    const std::vector<std::size_t> lacking = LackedNextAfter(t);
    const TaskCost* best = nullptr;
    Nanoseconds best_gain{0};
    for (const TaskCost& cost : costs) {
      Nanoseconds gain = costs.front().time - cost.time;
      if (cost.workspace > Bytes(0)) {
        const std::optional<Room> room = FindRoom(cost.workspace, {t, t});
        if (!room) continue;
        gain -= room->delay + DelayedTransfers(lacking, room->range);
      }
      if (best != nullptr && gain <= best_gain) continue;
      best = &cost;
      best_gain = gain;
    }
    return best;
  }

  // The blocks that the next task after t that lacks any lacks.
  std::vector<std::size_t> LackedNextAfter(std::size_t t) const {
    std::size_t next = round_.tasks.size();
    std::vector<std::size_t> lacking;
    for (const std::size_t block : away_) {
      const std::vector<std::size_t>& uses = round_.uses[block];
      const auto use = std::ranges::upper_bound(uses, t);
      if (use == uses.end() || *use > next) continue;
      if (*use < next) lacking.clear();
      next = *use;
      lacking.push_back(block);
    }
    return lacking;
  }

  // T_pre: transfers of the blocks that fit now, but would not with `workspace`
  // taken.
  Nanoseconds DelayedTransfers(const std::vector<std::size_t>& blocks,
                               MemoryRange workspace) {
    const auto free = draft_.pool().FreeRanges(Now());
    MemoryPool without_it = draft_.pool();
    MemoryPool with_it = draft_.pool();
    for (const auto& [offset, bytes] : free) {
      const Bytes low = std::max(Bytes(offset), workspace.offset);
      const Bytes high =
          std::min(Bytes(offset + bytes), workspace.offset + workspace.bytes);
      if (low < high) with_it.TakeAt({low, high - low});
    }
    Nanoseconds sum{0};
    for (const std::size_t block : blocks) {
      const Bytes size = round_.size[block];
      const bool fits = without_it.Take(size, Now()).has_value();
      if (!with_it.Take(size, Now()) && fits) {
        sum += round_.graph->device.PrefetchTime(size);
      }
    }
    return sum;
  }

  // Lines 12 to 14.
  void TakeWorkspace(Bytes size, std::size_t t) {
    const std::optional<Room> room = FindRoom(size, {t, t});
    UCUDNN_CHECK(room.has_value());  // ChooseAlgorithm found it
    Timeline::Events releases = TakeRoom(*room, kCompute);
    if (!releases.empty()) timeline().Sync(kCompute, std::move(releases));
    workspace_ = room->range;
  }

  // Lines 15 to 27, at T, when task t is about to start.
  void PrefetchDuring(std::size_t t) {
    // What is predicted to be on the device and cannot leave (5.2.2).
    std::vector<bool> held(stays_.size());
    Bytes sum;
    const auto hold = [&](std::size_t block, bool holds) {
      if (held[block] == holds) return;
      held[block] = holds;
      sum += holds ? round_.size[block] : Bytes(0) - round_.size[block];
    };
    for (std::size_t block = 0; block < stays_.size(); ++block) {
      hold(block, timeline().OnDevice(block) && !stays_[block] &&
                      !Evictable(block, {t, t}));
    }
    const Timeline::Events start = timeline().Last(kCompute);
    for (std::size_t s = t + 1; s < blocks_.size() && !away_.empty(); ++s) {
      for (const std::size_t block : blocks_[s - 1]) {
        if (!round_.UsedFrom(block, s)) hold(block, false);
      }
      Bytes need = sum;
      Nanoseconds transfers{0};
      for (const std::size_t block : blocks_[s]) {
        if (!stays_[block] && !held[block]) need += round_.size[block];
        if (away_.count(block) > 0) {
          transfers += round_.graph->device.PrefetchTime(round_.size[block]);
        }
      }
      if (need > room_) return;                                // line 16
      if (transfers == Nanoseconds(0)) continue;               // line 18
      if (transfers <= fastest_[s] - fastest_[t + 1]) return;  // (9)
      for (const std::size_t block : blocks_[s]) {
        if (away_.count(block) == 0) continue;
        if (!Alloc(block, {t, s}, kCopy, start)) return;
        Fetch(block);
        hold(block, true);
      }
    }
  }

  void MarkUses(std::size_t task) {
    for (const std::size_t block : round_.reads[task]) used_[block] = true;
    for (const std::size_t block : round_.graph->tasks[task].writes) {
      used_[block] = false;
    }
  }

  const RoundModel& round_;
  RoundDraft draft_;
  HostUpdates host_updates_;
  Bytes room_;                  // of the budget, besides what stays
  std::vector<bool> stays_;     // by block
  std::vector<bool> used_;      // by block: since it was made or fetched
  std::set<std::size_t> away_;  // blocks on the host only
  MemoryRange workspace_;       // of the task that comes next
  std::vector<std::vector<std::size_t>> blocks_;  // by place of the task
  std::vector<Nanoseconds> fastest_;  // sums over the tasks before each
};

}  // namespace

Result<MemoryRound> ScheduleModnnRound(const RoundModel& round,
                                       const ModnnRoundOptions& options) {
  return ModnnRound(round, options).Plan();
}

}  // namespace ucudnn
