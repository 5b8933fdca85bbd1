#include "solver/check/memory_replay.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "solver/check/memory_durations.h"
#include "solver/check/memory_host.h"
#include "solver/check/memory_ranges.h"
#include "solver/check/memory_violation.h"

namespace ucudnn::memory_check {
namespace {

class Replay {
 public:
  Replay(const MemoryPlan& plan, const MemoryRound& round, RoundPlace place,
         const TrainingGraph& graph, const EventOrder& order)
      : plan_(plan),
        round_(round),
        place_(place),
        graph_(graph),
        order_(order),
        events_(round.events),
        ranges_(round, graph, order, plan.budget),
        host_(round, graph, order),
        live_(graph.blocks.size()),
        home_(graph.blocks.size()),
        done_(graph.tasks.size()) {}

  Result<ReplayedRound> Run() {
    const std::vector<Version> final = FindWanted();
    UCUDNN_RETURN_IF_ERROR(TakeResidents());
    BeginHost();
    for (std::size_t i = 0; i < events_.size(); ++i) {
      UCUDNN_RETURN_IF_ERROR(Step(i));
    }
    UCUDNN_RETURN_IF_ERROR(CheckTasks());
    for (std::size_t b = 0; b < graph_.blocks.size(); ++b) {
      UCUDNN_RETURN_IF_ERROR(CheckEnd(b, final[b]));
    }
    found_.peak = ranges_.peak();
    found_.load = Load();
    found_.on_host = host_.sizes();
    return std::move(found_);
  }

 private:
  // A block's time on the device.
  struct Residency {
    std::size_t owner;                 // in ranges_
    std::optional<std::size_t> alloc;  // absent of what was resident
    std::vector<std::pair<std::size_t, bool>> accesses;  // event, writes
    Version version = kNothing;
    std::size_t interval;
  };
  // What counts for the load.
  struct Interval {
    Nanoseconds from;
    Nanoseconds until;
    Bytes bytes;
  };

  std::string At(std::size_t i) const { return EventName(round_, graph_, i); }
  const std::string& NameOf(std::size_t block) const {
    return graph_.blocks[block].name;
  }
  bool Persistent(std::size_t block) const {
    return graph_.blocks[block].persistent ||
           (place_.accumulates &&
            graph_.blocks[block].kind == BlockKind::kWeightGradient);
  }
  bool IsInput(std::size_t block) const {
    return graph_.blocks[block].kind == BlockKind::kInput;
  }
  Bytes Size(std::size_t block) const {
    return graph_.blocks[block].SizeAt(round_.batch);
  }
  std::vector<std::size_t> Reads(const Task& task) const {
    std::vector<std::size_t> reads = task.reads;
    for (const std::size_t block : task.writes) {
      if (place_.accumulates &&
          graph_.blocks[block].kind == BlockKind::kWeightGradient &&
          std::ranges::count(reads, block) == 0) {
        reads.push_back(block);
      }
    }
    return reads;
  }
  bool RunsHere(const Task& task) const {
    return place_.last || (task.kind != TaskKind::kUpdate &&
                           task.kind != TaskKind::kHostUpdate);
  }
  std::string Left(Version version) const {
    return version == kStart     ? "the round's start"
           : version == kNothing ? "nothing"
                                 : graph_.tasks[version].name;
  }

  // Sets what every task of the round must find; returns what is there at its
  // end.
  std::vector<Version> FindWanted() {
    std::vector<Version> current(graph_.blocks.size(), kStart);
    wanted_.resize(graph_.tasks.size());
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t) {
      const Task& task = graph_.tasks[t];
      if (!RunsHere(task)) continue;
      for (const std::size_t block : Reads(task)) {
        wanted_[t][block] = current[block];
      }
      for (const std::size_t block : task.writes) current[block] = t;
    }
    return current;
  }

  Status TakeResidents() {
    for (const ResidentBlock& resident : plan_.resident) {
      const std::size_t b = resident.block;
      if (b >= graph_.blocks.size()) {
        return Violation(1, "resident", "block {} is not in the graph", b);
      }
      if (home_[b]) {
        return Violation(10, "resident", "{} comes twice", NameOf(b));
      }
      if (!Persistent(b) && !IsInput(b)) {
        return Violation(10, "resident",
                         "{} is neither persistent nor an input", NameOf(b));
      }
      if (resident.range.bytes < Size(b)) {
        return Violation(11, "resident", "{} has {} bytes, needs {}", NameOf(b),
                         resident.range.bytes.count(), Size(b).count());
      }
      UCUDNN_RETURN_IF_ERROR(CheckAligned("resident", resident.range.offset));
      UCUDNN_RETURN_IF_ERROR(Begin(std::nullopt, b, resident.range, kStart));
      home_[b] = resident.range;
    }
    return {};
  }

  // Inputs, and what is persistent but not on the device or what the host
  // updates, are on the host.
  void BeginHost() {
    std::set<std::size_t> by_host;
    for (const Task& task : graph_.tasks) {
      if (task.kind == TaskKind::kHostUpdate && RunsHere(task)) {
        by_host.insert(task.writes.begin(), task.writes.end());
      }
    }
    for (std::size_t b = 0; b < graph_.blocks.size(); ++b) {
      if (IsInput(b) ||
          (Persistent(b) && (!home_[b] || by_host.count(b) > 0))) {
        host_.Begin(b);
      }
    }
  }

  Status CheckAligned(const std::string& where, Bytes offset) const {
    if (offset.count() % plan_.alignment.count() == 0) return {};
    return Violation(11, where, "offset {} is no multiple of {}",
                     offset.count(), plan_.alignment.count());
  }

  // The block is on the device from event `i` (absent: from the start) on.
  Status Begin(std::optional<std::size_t> i, std::size_t block,
               MemoryRange range, Version version) {
    UCUDNN_ASSIGN_OR_RETURN(const std::size_t owner,
                            ranges_.ClaimBlock(i, block, range));
    live_[block] = residencies_.size();
    residencies_.push_back({owner, i, {}, version, intervals_.size()});
    intervals_.push_back(
        {i ? events_[*i].start : Nanoseconds(0), order_.finish(), range.bytes});
    return {};
  }

  Status Step(std::size_t i) {
    switch (events_[i].op) {
      case EventOp::kAlloc:
        return StepAlloc(i);
      case EventOp::kFree:
        return StepFree(i);
      case EventOp::kSync:
        return {};
      case EventOp::kCompute:
        return graph_.tasks[events_[i].task].kind == TaskKind::kHostUpdate
                   ? StepHostUpdate(i)
                   : StepCompute(i);
      case EventOp::kOffload:
        return StepOffload(i);
      case EventOp::kPrefetch:
        return StepPrefetch(i);
    }
    return {};
  }

  Status StepAlloc(std::size_t i) {
    const MemoryEvent& e = events_[i];
    const std::size_t b = e.block;
    if (live_[b]) {
      return Violation(15, At(i), "the block is on the device already");
    }
    if (e.range.bytes < Size(b)) {
      return Violation(11, At(i), "{} bytes for a block of {}",
                       e.range.bytes.count(), Size(b).count());
    }
    UCUDNN_RETURN_IF_ERROR(CheckAligned(At(i), e.range.offset));
    if (home_[b] && Persistent(b) && *home_[b] != e.range) {
      return Violation(21, At(i),
                       "the block belongs at {}, where the next round expects "
                       "it",
                       home_[b]->offset.count());
    }
    return Begin(i, b, e.range, kNothing);
  }

  Status StepFree(std::size_t i) {
    const std::size_t b = events_[i].block;
    if (!live_[b]) {
      return Violation(15, At(i), "the block is not on the device");
    }
    const Residency& r = residencies_[*live_[b]];
    if (r.alloc && !order_.Before(*r.alloc, i)) {
      return Violation(16, At(i), "nothing makes this wait for the allocation");
    }
    for (const auto& [event, wrote] : r.accesses) {
      if (!order_.Before(event, i)) {
        return Violation(16, At(i), "{} may still use it", At(event));
      }
    }
    ranges_.Release(r.owner, i);
    intervals_[r.interval].until = events_[i].start;
    live_[b].reset();
    return {};
  }

  Status CheckRuns(std::size_t i) const {
    const std::size_t t = events_[i].task;
    if (!RunsHere(graph_.tasks[t])) {
      return Violation(19, At(i), "weights are updated in the last round only");
    }
    if (done_[t] && !graph_.tasks[t].recomputable) {
      return Violation(19, At(i), "ran already and must not run twice");
    }
    return {};
  }

  Status StepHostUpdate(std::size_t i) {
    UCUDNN_RETURN_IF_ERROR(CheckRuns(i));
    const std::size_t t = events_[i].task;
    const Task& task = graph_.tasks[t];
    std::vector<std::size_t> touched = Reads(task);
    touched.insert(touched.end(), task.writes.begin(), task.writes.end());
    for (const std::size_t b : touched) {
      const Version found = host_.Of(b);
      const auto want = wanted_[t].find(b);
      if (found == kNothing ||
          (want != wanted_[t].end() && found != want->second)) {
        return Violation(20, At(i), "finds {} on the host as left by {}",
                         NameOf(b), Left(found));
      }
      UCUDNN_RETURN_IF_ERROR(host_.Read(i, b));
    }
    for (const std::size_t b : task.writes) {
      UCUDNN_RETURN_IF_ERROR(host_.Write(i, b, t));
    }
    done_[t] = true;
    return {};
  }

  Status StepCompute(std::size_t i) {
    UCUDNN_RETURN_IF_ERROR(CheckRuns(i));
    const MemoryEvent& e = events_[i];
    const Task& task = graph_.tasks[e.task];
    const std::vector<std::size_t> reads = Reads(task);
    for (const auto* blocks : {&reads, &task.writes}) {
      for (const std::size_t b : *blocks) {
        if (!live_[b]) {
          return Violation(17, At(i), "uses {}, which is not on the device",
                           NameOf(b));
        }
      }
    }
    for (const std::size_t b : reads) {
      UCUDNN_RETURN_IF_ERROR(Access(i, b, false));
      const Version found = residencies_[*live_[b]].version;
      const Version want = wanted_[e.task].at(b);
      if (found == kNothing || found != want) {
        return Violation(20, At(i), "reads {} as left by {}, must find {}",
                         NameOf(b), Left(found), Left(want));
      }
    }
    for (const std::size_t b : task.writes) {
      UCUDNN_RETURN_IF_ERROR(Access(i, b, true));
      residencies_[*live_[b]].version = e.task;
    }
    if (e.range.bytes > Bytes(0)) {
      UCUDNN_RETURN_IF_ERROR(CheckAligned(At(i), e.range.offset));
      UCUDNN_RETURN_IF_ERROR(ranges_.ClaimWorkspace(i));
      intervals_.push_back({e.start, e.end(), e.range.bytes});
    }
    done_[e.task] = true;
    found_.computing += e.duration;
    return {};
  }

  // Event `i` uses a block on the device.
  Status Access(std::size_t i, std::size_t block, bool writes) {
    Residency& r = residencies_[*live_[block]];
    if (r.alloc && !order_.Before(*r.alloc, i)) {
      return Violation(17, At(i),
                       "nothing makes it wait for the allocation of {}",
                       NameOf(block));
    }
    for (const auto& [event, wrote] : r.accesses) {
      if ((writes || wrote) && event != i && !order_.Before(event, i)) {
        return Violation(18, At(i), "{} may still be {} by {}", NameOf(block),
                         wrote ? "written" : "read", At(event));
      }
    }
    r.accesses.emplace_back(i, writes);
    return {};
  }

  Status StepOffload(std::size_t i) {
    const std::size_t b = events_[i].block;
    if (!live_[b]) {
      return Violation(17, At(i), "the block is not on the device");
    }
    UCUDNN_RETURN_IF_ERROR(Access(i, b, false));
    const Version version = residencies_[*live_[b]].version;
    if (version == kNothing) {
      return Violation(20, At(i), "the block holds nothing yet");
    }
    UCUDNN_RETURN_IF_ERROR(host_.Write(i, b, version));
    Add(events_[i].range.bytes, 1, &found_.offloaded);
    return {};
  }

  Status StepPrefetch(std::size_t i) {
    const std::size_t b = events_[i].block;
    if (!live_[b]) return Violation(17, At(i), "the block is not allocated");
    if (host_.Of(b) == kNothing) {
      return Violation(20, At(i), "the block has no copy on the host");
    }
    UCUDNN_RETURN_IF_ERROR(host_.Read(i, b));
    UCUDNN_RETURN_IF_ERROR(Access(i, b, true));
    residencies_[*live_[b]].version = host_.Of(b);
    Add(events_[i].range.bytes, 1, &found_.prefetched);
    return {};
  }

  Status CheckTasks() const {
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t) {
      if (RunsHere(graph_.tasks[t]) && !done_[t]) {
        return Violation(19, "end", "{} never runs", graph_.tasks[t].name);
      }
    }
    return {};
  }

  // Block `b` ends where it belongs, as the task `final` left it.
  Status CheckEnd(std::size_t b, Version final) const {
    const bool stays = Persistent(b) && home_[b].has_value();
    if (live_[b] && !stays) {
      const bool untouched = IsInput(b) && !residencies_[*live_[b]].alloc;
      if (!untouched) {
        return Violation(22, "end", "{} is still on the device", NameOf(b));
      }
    }
    if (!Persistent(b)) return {};
    if (!stays) {
      if (host_.Of(b) == final) return {};
      return Violation(21, "end", "the host has {} as left by {}, not {}",
                       NameOf(b), Left(host_.Of(b)), Left(final));
    }
    if (!live_[b]) {
      return Violation(21, "end", "{} is not on the device", NameOf(b));
    }
    const Version found = residencies_[*live_[b]].version;
    if (found == final) return {};
    return Violation(21, "end", "{} is as left by {}, not {}", NameOf(b),
                     Left(found), Left(final));
  }

  // The most that is live at once.
  Bytes Load() const {
    std::map<Nanoseconds, std::int64_t> changes;
    for (const Interval& interval : intervals_) {
      if (interval.until <= interval.from) continue;
      changes[interval.from] += interval.bytes.count();
      changes[interval.until] -= interval.bytes.count();
    }
    Bytes most;
    std::int64_t sum = 0;
    for (const auto& [time, change] : changes) {
      sum += change;
      most = std::max(most, Bytes(sum));
    }
    return most;
  }

  const MemoryPlan& plan_;
  const MemoryRound& round_;
  const RoundPlace place_;
  const TrainingGraph& graph_;
  const EventOrder& order_;
  const std::vector<MemoryEvent>& events_;
  OwnedRanges ranges_;
  HostCopies host_;
  std::vector<std::map<std::size_t, Version>> wanted_;  // by task and block
  std::vector<Residency> residencies_;
  std::vector<Interval> intervals_;
  std::vector<std::optional<std::size_t>> live_;  // residency by block
  std::vector<std::optional<MemoryRange>> home_;  // by block
  std::vector<bool> done_;                        // by task
  ReplayedRound found_;
};

}  // namespace

Result<ReplayedRound> ReplayRound(const MemoryPlan& plan,
                                  const MemoryRound& round, RoundPlace place,
                                  const TrainingGraph& graph,
                                  const EventOrder& order) {
  return Replay(plan, round, place, graph, order).Run();
}

}  // namespace ucudnn::memory_check
