#include "solver/check/memory_plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ucudnn {
namespace {

template <class... Args>
tl::unexpected<Error> Violation(int rule, const std::string& where,
                                fmt::format_string<Args...> format,
                                Args&&... args) {
  return Fail(Code::kInternal, "R{} {}: {}", rule, where,
              fmt::format(format, std::forward<Args>(args)...));
}

// What left a block as it is.
constexpr std::size_t kStart = static_cast<std::size_t>(-1);    // the round
constexpr std::size_t kNothing = static_cast<std::size_t>(-2);  // nobody yet
using Version = std::size_t;                                    // or a task

bool IsTransfer(EventOp op) {
  return op == EventOp::kOffload || op == EventOp::kPrefetch;
}

// Plans from outside may state any number: sums stop at the largest.
std::int64_t Sum(std::int64_t sum, std::int64_t value, std::int64_t count) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(value, count, &product) ||
      __builtin_add_overflow(sum, product, &sum)) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return sum;
}

// Adds `count` times the value.
template <class Quantity>
void Add(Quantity value, std::int64_t count, Quantity* sum) {
  *sum = Quantity(Sum(sum->count(), value.count(), count));
}

struct Totals {
  Bytes peak;
  Bytes load;
  Nanoseconds computing{0};
  Bytes offloaded;
  Bytes prefetched;
};

// One round, replayed.
class Replay {
 public:
  Replay(const MemoryPlan& plan, const TrainingGraph& graph,
         const MemoryRound& round, bool last, bool accumulates)
      : plan_(plan),
        graph_(graph),
        round_(round),
        events_(round.events),
        last_(last),
        accumulates_(accumulates) {}

  Status Check() {
    UCUDNN_RETURN_IF_ERROR(CheckTiming());
    UCUDNN_RETURN_IF_ERROR(CheckDurations());
    UCUDNN_RETURN_IF_ERROR(CheckLink());
    UCUDNN_RETURN_IF_ERROR(CheckMemory());
    ComputeLoad();
    return {};
  }

  const Totals& totals() const { return totals_; }
  // Sizes of the blocks with a copy on the host.
  const std::map<std::size_t, Bytes>& on_host() const { return host_sizes_; }

 private:
  struct Residency {
    std::size_t block;
    std::int64_t low;
    std::int64_t high;
    std::optional<std::size_t> alloc;  // absent of what was resident
    std::optional<std::size_t> release;
    std::vector<std::pair<std::size_t, bool>> accesses;  // event, writes
    Version version = kNothing;
  };
  struct Owned {
    std::int64_t low;
    std::int64_t high;
    std::optional<std::size_t> residency;  // else the workspace of
    std::size_t event;
  };
  struct Live {  // for the load
    Nanoseconds from;
    Nanoseconds until;
    Bytes bytes;
  };

  std::string At(std::size_t i) const {
    const MemoryEvent& e = events_[i];
    std::string what(Name(e.op));
    if (e.op == EventOp::kCompute) {
      what += " " + graph_.tasks[e.task].name;
    } else if (e.op != EventOp::kSync) {
      what += " " + graph_.blocks[e.block].name;
    }
    return fmt::format("event {} ({} on {})", i, what, Name(e.stream));
  }

  bool Persistent(std::size_t block) const {
    return graph_.blocks[block].persistent ||
           (accumulates_ &&
            graph_.blocks[block].kind == BlockKind::kWeightGradient);
  }
  Bytes Size(std::size_t block) const {
    const MemoryBlock& b = graph_.blocks[block];
    return b.bytes + b.bytes_per_image * round_.batch.count();
  }
  std::vector<std::size_t> Reads(const Task& task) const {
    std::vector<std::size_t> reads = task.reads;
    for (const std::size_t block : task.writes) {
      if (accumulates_ &&
          graph_.blocks[block].kind == BlockKind::kWeightGradient &&
          std::count(reads.begin(), reads.end(), block) == 0) {
        reads.push_back(block);
      }
    }
    return reads;
  }

  Status CheckTiming() {
    std::array<std::optional<std::size_t>, kMemoryStreams.size()> last;
    std::array<std::size_t, kMemoryStreams.size()> count{};
    Nanoseconds previous{0};
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const MemoryEvent& e = events_[i];
      const auto stream = static_cast<std::size_t>(e.stream);
      if (stream >= kMemoryStreams.size() ||
          static_cast<std::size_t>(e.op) > 5) {
        return Violation(2, fmt::format("event {}", i),
                         "its operation or stream does not exist");
      }
      if (e.op == EventOp::kCompute
              ? e.task >= graph_.tasks.size()
              : e.op != EventOp::kSync && e.block >= graph_.blocks.size()) {
        return Violation(2, fmt::format("event {}", i),
                         "its task or block is not in the graph");
      }
      const bool host_update =
          e.op == EventOp::kCompute &&
          graph_.tasks[e.task].kind == TaskKind::kHostUpdate;
      const bool right_stream =
          e.op == EventOp::kCompute
              ? e.stream ==
                    (host_update ? MemoryStream::kHost : MemoryStream::kCompute)
          : IsTransfer(e.op) ? e.stream != MemoryStream::kCompute &&
                                   e.stream != MemoryStream::kHost
                             : true;
      if (!right_stream) {
        return Violation(2, At(i), "runs on the wrong stream");
      }
      const bool instant = e.op != EventOp::kCompute && !IsTransfer(e.op);
      if (e.duration < Nanoseconds(0) ||
          (instant && e.duration != Nanoseconds(0))) {
        return Violation(2, At(i), "takes {} ns", e.duration.count());
      }
      std::vector<std::size_t> before = e.after;
      if (last[stream]) before.push_back(*last[stream]);
      std::array<std::size_t, kMemoryStreams.size()> clock{};
      Nanoseconds earliest{0};
      for (const std::size_t other : before) {
        if (other >= i) {
          return Violation(3, At(i),
                           "waits for event {}, which does not come before it",
                           other);
        }
        earliest = std::max(earliest, events_[other].end());
        for (std::size_t s = 0; s < clock.size(); ++s) {
          clock[s] = std::max(clock[s], ended_[other][s]);
        }
        const auto theirs = static_cast<std::size_t>(events_[other].stream);
        clock[theirs] = std::max(clock[theirs], place_[other] + 1);
      }
      if (e.start != earliest) {
        return Violation(4, At(i),
                         "starts at {} ns; its stream and what it waits for "
                         "allow {} ns",
                         e.start.count(), earliest.count());
      }
      if (e.start < previous) {
        return Violation(5, At(i),
                         "starts at {} ns, before the event ahead of it",
                         e.start.count());
      }
      previous = e.start;
      ended_.push_back(clock);
      place_.push_back(count[stream]++);
      last[stream] = i;
      finish_ = std::max(finish_, e.end());
    }
    if (round_.time != finish_) {
      return Violation(23, "round", "takes {} ns, its events end at {} ns",
                       round_.time.count(), finish_.count());
    }
    return {};
  }

  // Whether event a has certainly ended when b starts.
  bool Before(std::size_t a, std::size_t b) const {
    return a != b &&
           ended_[b][static_cast<std::size_t>(events_[a].stream)] > place_[a];
  }

  Status CheckDurations() {
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const MemoryEvent& e = events_[i];
      if (IsTransfer(e.op)) {
        const Bytes size = Size(e.block);
        if (e.range.bytes != size) {
          return Violation(7, At(i), "moves {} bytes of a block of {}",
                           e.range.bytes.count(), size.count());
        }
        const Nanoseconds time = e.op == EventOp::kOffload
                                     ? graph_.device.OffloadTime(size)
                                     : graph_.device.PrefetchTime(size);
        if (e.duration != time) {
          return Violation(7, At(i), "takes {} ns; {} bytes take {} ns",
                           e.duration.count(), size.count(), time.count());
        }
      }
      if (e.op != EventOp::kCompute) continue;
      const Task& task = graph_.tasks[e.task];
      std::vector<TaskPart> parts = e.parts;
      if (parts.empty()) parts.push_back({round_.batch, 1, ""});
      std::int64_t images = 0;
      Nanoseconds time{0};
      Bytes workspace;
      for (const TaskPart& part : parts) {
        const std::vector<TaskCost> costs = CostsAt(graph_, task, part.batch);
        const TaskCost* cost = nullptr;
        for (const TaskCost& candidate : costs) {
          if (part.algorithm.empty() ||
              candidate.algorithm.name == part.algorithm) {
            cost = &candidate;
          }
        }
        if (cost == nullptr || part.count < 1) {
          return Violation(6, At(i),
                           "{} runs of batch {}, algorithm '{}' have no cost",
                           part.count, part.batch.count(), part.algorithm);
        }
        images += part.batch.count() * part.count;
        Add(cost->time, part.count, &time);
        workspace = std::max(workspace, cost->workspace);
      }
      if (images != round_.batch.count()) {
        return Violation(6, At(i), "its parts have {} images, the round {}",
                         images, round_.batch.count());
      }
      if (e.duration != time) {
        return Violation(7, At(i), "takes {} ns, its parts take {} ns",
                         e.duration.count(), time.count());
      }
      if (e.range.bytes < workspace) {
        return Violation(8, At(i),
                         "has a workspace of {} bytes, its algorithm needs {}",
                         e.range.bytes.count(), workspace.count());
      }
    }
    return {};
  }

  Status CheckLink() {
    // The last transfer of a direction, or of all; events come by start.
    std::array<std::optional<std::size_t>, 2> last;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (!IsTransfer(events_[i].op)) continue;
      const bool other_way =
          graph_.device.duplex && events_[i].op == EventOp::kPrefetch;
      std::optional<std::size_t>& previous = last[other_way ? 1 : 0];
      if (previous && events_[*previous].end() > events_[i].start) {
        return Violation(9, At(i), "overlaps {} on the same link",
                         At(*previous));
      }
      if (!previous || events_[i].end() >= events_[*previous].end()) {
        previous = i;
      }
    }
    return {};
  }

  // Gives [low, high) to what event `i` takes (absent: the round's start).
  Status Claim(std::optional<std::size_t> i, std::int64_t low,
               std::int64_t high, std::optional<std::size_t> residency) {
    const std::string where = i ? At(*i) : "resident";
    if (low < 0 || high > plan_.budget.count()) {
      return Violation(12, where, "[{}, {}) is not within the budget of {}",
                       low, high, plan_.budget.count());
    }
    totals_.peak = std::max(totals_.peak, Bytes(high));
    std::vector<Owned> kept;
    for (const Owned& owned : owners_) {
      if (owned.high <= low || owned.low >= high) {
        kept.push_back(owned);
        continue;
      }
      const std::string whose =
          owned.residency
              ? graph_.blocks[residencies_[*owned.residency].block].name
              : fmt::format("the workspace of event {}", owned.event);
      const std::optional<std::size_t> release =
          owned.residency ? residencies_[*owned.residency].release
                          : std::optional<std::size_t>(owned.event);
      if (!release) {
        return Violation(13, where, "[{}, {}) overlaps {}, which is live", low,
                         high, whose);
      }
      if (!i || !Before(*release, *i)) {
        return Violation(14, where,
                         "[{}, {}) was {}'s; nothing makes this wait until "
                         "event {} has released it",
                         low, high, whose, *release);
      }
      if (owned.low < low) {
        kept.push_back({owned.low, low, owned.residency, owned.event});
      }
      if (owned.high > high) {
        kept.push_back({high, owned.high, owned.residency, owned.event});
      }
    }
    kept.push_back({low, high, residency, i.value_or(0)});
    owners_ = std::move(kept);
    return {};
  }

  Status CheckAligned(const std::string& where, Bytes offset) const {
    if (offset.count() % plan_.alignment.count() == 0) return {};
    return Violation(11, where, "offset {} is no multiple of {}",
                     offset.count(), plan_.alignment.count());
  }

  Status Access(std::size_t i, std::size_t residency, bool writes) {
    Residency& r = residencies_[residency];
    if (r.alloc && !Before(*r.alloc, i)) {
      return Violation(17, At(i),
                       "nothing makes it wait for the allocation of {}",
                       graph_.blocks[r.block].name);
    }
    for (const auto& [event, wrote] : r.accesses) {
      if ((writes || wrote) && event != i && !Before(event, i)) {
        return Violation(18, At(i), "{} may still be {} by {}",
                         graph_.blocks[r.block].name,
                         wrote ? "written" : "read", At(event));
      }
    }
    r.accesses.emplace_back(i, writes);
    return {};
  }

  Status CheckMemory() {
    const std::size_t blocks = graph_.blocks.size();
    live_.resize(blocks);
    home_.resize(blocks);
    host_version_.resize(blocks, kNothing);
    host_event_.resize(blocks);
    done_.resize(graph_.tasks.size());
    // What every task of the round must find, and what is there at its end.
    std::vector<Version> current(blocks, kStart);
    wanted_.resize(graph_.tasks.size());
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t) {
      const Task& task = graph_.tasks[t];
      if (!RunsHere(task)) continue;
      for (const std::size_t block : Reads(task)) {
        wanted_[t][block] = current[block];
      }
      for (const std::size_t block : task.writes) current[block] = t;
    }
    UCUDNN_RETURN_IF_ERROR(TakeResidents());
    for (std::size_t i = 0; i < events_.size(); ++i) {
      UCUDNN_RETURN_IF_ERROR(Step(i));
    }
    return CheckEnd(current);
  }

  bool RunsHere(const Task& task) const {
    return last_ || (task.kind != TaskKind::kUpdate &&
                     task.kind != TaskKind::kHostUpdate);
  }

  Status TakeResidents() {
    for (const ResidentBlock& resident : plan_.resident) {
      const std::size_t b = resident.block;
      if (b >= graph_.blocks.size()) {
        return Violation(1, "resident", "block {} is not in the graph", b);
      }
      const std::string& name = graph_.blocks[b].name;
      if (home_[b]) return Violation(10, "resident", "{} comes twice", name);
      if (!Persistent(b) && graph_.blocks[b].kind != BlockKind::kInput) {
        return Violation(10, "resident",
                         "{} is neither persistent nor an input", name);
      }
      if (resident.range.bytes < Size(b)) {
        return Violation(11, "resident", "{} has {} bytes, needs {}", name,
                         resident.range.bytes.count(), Size(b).count());
      }
      UCUDNN_RETURN_IF_ERROR(CheckAligned("resident", resident.range.offset));
      const std::int64_t low = resident.range.offset.count();
      const std::int64_t high = low + resident.range.bytes.count();
      residencies_.push_back({b, low, high, {}, {}, {}, kStart});
      UCUDNN_RETURN_IF_ERROR(
          Claim(std::nullopt, low, high, residencies_.size() - 1));
      home_[b] = resident.range;
      live_[b] = residencies_.size() - 1;
      intervals_.push_back({Nanoseconds(0), finish_, resident.range.bytes});
      interval_of_.push_back(intervals_.size() - 1);
    }
    std::set<std::size_t> by_host;
    for (const Task& task : graph_.tasks) {
      if (task.kind == TaskKind::kHostUpdate && RunsHere(task)) {
        by_host.insert(task.writes.begin(), task.writes.end());
      }
    }
    for (std::size_t b = 0; b < graph_.blocks.size(); ++b) {
      const bool input = graph_.blocks[b].kind == BlockKind::kInput;
      if (input || (Persistent(b) && (!home_[b] || by_host.count(b) > 0))) {
        host_version_[b] = kStart;
        if (!input) host_sizes_[b] = Size(b);
      }
    }
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
    const std::int64_t low = e.range.offset.count();
    const std::int64_t high = low + e.range.bytes.count();
    residencies_.push_back({b, low, high, i, {}, {}, kNothing});
    UCUDNN_RETURN_IF_ERROR(Claim(i, low, high, residencies_.size() - 1));
    live_[b] = residencies_.size() - 1;
    intervals_.push_back({e.start, finish_, e.range.bytes});
    interval_of_.push_back(intervals_.size() - 1);
    return {};
  }

  Status StepFree(std::size_t i) {
    const std::size_t b = events_[i].block;
    if (!live_[b])
      return Violation(15, At(i), "the block is not on the device");
    Residency& r = residencies_[*live_[b]];
    if (r.alloc && !Before(*r.alloc, i)) {
      return Violation(16, At(i), "nothing makes this wait for the allocation");
    }
    for (const auto& [event, wrote] : r.accesses) {
      if (!Before(event, i)) {
        return Violation(16, At(i), "{} may still use it", At(event));
      }
    }
    r.release = i;
    intervals_[interval_of_[*live_[b]]].until = events_[i].start;
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

  std::string Left(Version version) const {
    return version == kStart     ? "the round's start"
           : version == kNothing ? "nothing"
                                 : graph_.tasks[version].name;
  }

  Status StepHostUpdate(std::size_t i) {
    UCUDNN_RETURN_IF_ERROR(CheckRuns(i));
    const std::size_t t = events_[i].task;
    const Task& task = graph_.tasks[t];
    std::vector<std::size_t> touched = Reads(task);
    touched.insert(touched.end(), task.writes.begin(), task.writes.end());
    for (const std::size_t b : touched) {
      const auto want = wanted_[t].find(b);
      if (host_version_[b] == kNothing ||
          (want != wanted_[t].end() && host_version_[b] != want->second)) {
        return Violation(20, At(i), "finds {} on the host as left by {}",
                         graph_.blocks[b].name, Left(host_version_[b]));
      }
      if (host_event_[b] && *host_event_[b] != i &&
          !Before(*host_event_[b], i)) {
        return Violation(18, At(i), "nothing makes it wait for {}",
                         At(*host_event_[b]));
      }
    }
    for (const std::size_t b : task.writes) {
      host_version_[b] = t;
      host_event_[b] = i;
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
                           graph_.blocks[b].name);
        }
      }
    }
    for (const std::size_t b : reads) {
      UCUDNN_RETURN_IF_ERROR(Access(i, *live_[b], false));
      const Version found = residencies_[*live_[b]].version;
      const Version want = wanted_[e.task].at(b);
      if (found == kNothing || found != want) {
        return Violation(20, At(i), "reads {} as left by {}, must find {}",
                         graph_.blocks[b].name, Left(found), Left(want));
      }
    }
    for (const std::size_t b : task.writes) {
      UCUDNN_RETURN_IF_ERROR(Access(i, *live_[b], true));
      residencies_[*live_[b]].version = e.task;
    }
    if (e.range.bytes > Bytes(0)) {
      UCUDNN_RETURN_IF_ERROR(CheckAligned(At(i), e.range.offset));
      const std::int64_t low = e.range.offset.count();
      UCUDNN_RETURN_IF_ERROR(
          Claim(i, low, low + e.range.bytes.count(), std::nullopt));
      intervals_.push_back({e.start, e.end(), e.range.bytes});
    }
    done_[e.task] = true;
    totals_.computing += e.duration;
    return {};
  }

  Status StepOffload(std::size_t i) {
    const MemoryEvent& e = events_[i];
    const std::size_t b = e.block;
    if (!live_[b])
      return Violation(17, At(i), "the block is not on the device");
    UCUDNN_RETURN_IF_ERROR(Access(i, *live_[b], false));
    const Version version = residencies_[*live_[b]].version;
    if (version == kNothing) {
      return Violation(20, At(i), "the block holds nothing yet");
    }
    if (host_event_[b] && !Before(*host_event_[b], i)) {
      return Violation(18, At(i), "the copy on the host is in use by {}",
                       At(*host_event_[b]));
    }
    // Nor may a prefetch still read the copy that this replaces.
    for (const std::size_t reader : host_readers_[b]) {
      if (!Before(reader, i)) {
        return Violation(18, At(i), "the copy on the host is in use by {}",
                         At(reader));
      }
    }
    host_readers_[b].clear();
    host_version_[b] = version;
    host_event_[b] = i;
    Add(e.range.bytes, 1, &totals_.offloaded);
    if (graph_.blocks[b].kind != BlockKind::kInput) {
      host_sizes_[b] = e.range.bytes;
    }
    return {};
  }

  Status StepPrefetch(std::size_t i) {
    const std::size_t b = events_[i].block;
    if (!live_[b]) return Violation(17, At(i), "the block is not allocated");
    if (host_version_[b] == kNothing) {
      return Violation(20, At(i), "the block has no copy on the host");
    }
    if (host_event_[b] && !Before(*host_event_[b], i)) {
      return Violation(18, At(i), "nothing makes this wait for {}",
                       At(*host_event_[b]));
    }
    UCUDNN_RETURN_IF_ERROR(Access(i, *live_[b], true));
    host_readers_[b].push_back(i);
    residencies_[*live_[b]].version = host_version_[b];
    Add(events_[i].range.bytes, 1, &totals_.prefetched);
    return {};
  }

  Status CheckEnd(const std::vector<Version>& final) const {
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t) {
      if (RunsHere(graph_.tasks[t]) && !done_[t]) {
        return Violation(19, "end", "{} never runs", graph_.tasks[t].name);
      }
    }
    for (std::size_t b = 0; b < graph_.blocks.size(); ++b) {
      const std::string& name = graph_.blocks[b].name;
      const bool stays = Persistent(b) && home_[b].has_value();
      if (live_[b] && !stays) {
        const bool untouched = graph_.blocks[b].kind == BlockKind::kInput &&
                               !residencies_[*live_[b]].alloc;
        if (!untouched) {
          return Violation(22, "end", "{} is still on the device", name);
        }
      }
      if (!Persistent(b)) continue;
      if (!stays) {
        if (host_version_[b] != final[b]) {
          return Violation(21, "end", "the host has {} as left by {}, not {}",
                           name, Left(host_version_[b]), Left(final[b]));
        }
        continue;
      }
      if (!live_[b]) {
        return Violation(21, "end", "{} is not on the device", name);
      }
      const Version found = residencies_[*live_[b]].version;
      if (found != final[b]) {
        return Violation(21, "end", "{} is as left by {}, not {}", name,
                         Left(found), Left(final[b]));
      }
    }
    return {};
  }

  void ComputeLoad() {
    std::map<Nanoseconds, std::int64_t> changes;
    for (const Live& live : intervals_) {
      if (live.until <= live.from) continue;
      changes[live.from] += live.bytes.count();
      changes[live.until] -= live.bytes.count();
    }
    std::int64_t sum = 0;
    for (const auto& [time, change] : changes) {
      sum += change;
      totals_.load = std::max(totals_.load, Bytes(sum));
    }
  }

  const MemoryPlan& plan_;
  const TrainingGraph& graph_;
  const MemoryRound& round_;
  const std::vector<MemoryEvent>& events_;
  const bool last_;
  const bool accumulates_;
  Nanoseconds finish_{0};
  // By event: of each stream how many events have ended before it starts, and
  // its own place in its stream.
  std::vector<std::array<std::size_t, kMemoryStreams.size()>> ended_;
  std::vector<std::size_t> place_;
  std::vector<std::map<std::size_t, Version>> wanted_;  // by task and block
  std::vector<Residency> residencies_;
  std::vector<Owned> owners_;
  std::vector<Live> intervals_;
  std::vector<std::size_t> interval_of_;                // by residency
  std::vector<std::optional<std::size_t>> live_;        // by block
  std::vector<std::optional<MemoryRange>> home_;        // by block
  std::vector<Version> host_version_;                   // by block
  std::vector<std::optional<std::size_t>> host_event_;  // that wrote it
  std::map<std::size_t, std::vector<std::size_t>> host_readers_;
  std::map<std::size_t, Bytes> host_sizes_;
  std::vector<bool> done_;  // by task
  Totals totals_;
};

// Unless a task has no cost at the mini-batch.
void SetIdeals(const TrainingGraph& graph, MemoryPlan* found) {
  Nanoseconds time{0};
  Bytes size;
  Bytes workspace;
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kHostUpdate) continue;
    const std::vector<TaskCost> costs = CostsAt(graph, task, graph.batch);
    if (costs.empty()) return;
    Add(costs.back().time, 1, &time);
    workspace = std::max(workspace, costs.back().workspace);
  }
  for (const MemoryBlock& block : graph.blocks) {
    Add(block.SizeAt(graph.batch), 1, &size);
  }
  Add(workspace, 1, &size);
  found->ideal_time = time;
  found->ideal_bytes = size;
}

Status CheckTotals(const MemoryPlan& plan, const MemoryPlan& found) {
  const auto check = [&](const char* field, auto stated, auto given) -> Status {
    if (stated == given) return {};
    return Violation(23, "plan", "{} is {}, the events give {}", field,
                     stated.count(), given.count());
  };
  UCUDNN_RETURN_IF_ERROR(check("time", plan.time, found.time));
  UCUDNN_RETURN_IF_ERROR(check("stall", plan.stall, found.stall));
  UCUDNN_RETURN_IF_ERROR(check("peak", plan.peak, found.peak));
  UCUDNN_RETURN_IF_ERROR(check("load", plan.load, found.load));
  UCUDNN_RETURN_IF_ERROR(check("host", plan.host, found.host));
  UCUDNN_RETURN_IF_ERROR(check("offloaded", plan.offloaded, found.offloaded));
  UCUDNN_RETURN_IF_ERROR(
      check("prefetched", plan.prefetched, found.prefetched));
  if (plan.ideal_time && found.ideal_time) {
    UCUDNN_RETURN_IF_ERROR(
        check("ideal time", *plan.ideal_time, *found.ideal_time));
  }
  if (plan.ideal_bytes && found.ideal_bytes) {
    UCUDNN_RETURN_IF_ERROR(
        check("ideal size", *plan.ideal_bytes, *found.ideal_bytes));
  }
  if (plan.lower_bound > plan.time) {
    return Violation(24, "plan", "the lower bound of {} ns exceeds {} ns",
                     plan.lower_bound.count(), plan.time.count());
  }
  if (plan.lower_bound_bytes > plan.peak) {
    return Violation(24, "plan", "the lower bound of {} bytes exceeds {}",
                     plan.lower_bound_bytes.count(), plan.peak.count());
  }
  return {};
}

}  // namespace

Status ValidateMemoryPlan(const MemoryPlan& plan, const TrainingGraph& graph) {
  if (plan.rounds.empty() || plan.alignment < Bytes(1)) {
    return Violation(1, "plan", "it has no rounds or no alignment");
  }
  std::int64_t images = 0;
  std::int64_t count = 0;
  for (const MemoryRound& round : plan.rounds) {
    if (round.count < 1 || round.batch < BatchSize(1) ||
        round.count > graph.batch.count() || round.batch > graph.batch) {
      return Violation(1, "plan", "a round of {} images runs {} times",
                       round.batch.count(), round.count);
    }
    images += round.batch.count() * round.count;
    count += round.count;
  }
  if (images != graph.batch.count()) {
    return Violation(1, "plan", "its rounds have {} images, the mini-batch {}",
                     images, graph.batch.count());
  }
  if (plan.rounds.back().count != 1) {
    return Violation(1, "plan",
                     "the last round, which updates weights, runs {} times",
                     plan.rounds.back().count);
  }
  MemoryPlan found;
  std::map<std::size_t, Bytes> host;
  for (std::size_t i = 0; i < plan.rounds.size(); ++i) {
    const MemoryRound& round = plan.rounds[i];
    Replay replay(plan, graph, round, i + 1 == plan.rounds.size(), count > 1);
    if (Status status = replay.Check(); !status) {
      if (plan.rounds.size() == 1) return status;
      // The rule comes first whatever the round.
      Error error = std::move(status).error();
      error.message += fmt::format(" (round {})", i);
      return tl::unexpected<Error>(std::move(error));
    }
    const Totals& totals = replay.totals();
    found.peak = std::max(found.peak, totals.peak);
    found.load = std::max(found.load, totals.load);
    Add(round.time, round.count, &found.time);
    Add(round.time - totals.computing, round.count, &found.stall);
    Add(totals.offloaded, round.count, &found.offloaded);
    Add(totals.prefetched, round.count, &found.prefetched);
    for (const auto& [block, bytes] : replay.on_host()) {
      host[block] = std::max(host[block], bytes);
    }
  }
  for (const auto& [block, bytes] : host) Add(bytes, 1, &found.host);
  SetIdeals(graph, &found);
  return CheckTotals(plan, found);
}

}  // namespace ucudnn
