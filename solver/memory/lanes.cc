#include "solver/memory/lanes.h"

#include <algorithm>
#include <optional>

namespace ucudnn {
namespace {

bool HaveCommon(const std::vector<std::size_t>& a,
                const std::vector<std::size_t>& b) {
  return std::ranges::any_of(
      a, [&](std::size_t block) { return std::ranges::count(b, block) > 0; });
}

struct Lane {
  std::optional<std::size_t> last;  // place among the round's tasks
  Nanoseconds end{0};
};

// The lane for the task that `order` has at `place`.
Lane& Choose(const TaskOrder& order, std::size_t place,
             std::vector<Lane>* lanes) {
  Lane* chosen = nullptr;
  for (Lane& lane : *lanes) {
    if (lane.last && order.Before(*lane.last, place) &&
        (chosen == nullptr || *chosen->last < *lane.last)) {
      chosen = &lane;
    }
  }
  return chosen != nullptr ? *chosen
                           : *std::ranges::min_element(*lanes, {}, &Lane::end);
}

}  // namespace

bool Conflict(const Task& a, const Task& b) {
  return HaveCommon(a.writes, b.writes) || HaveCommon(a.writes, b.reads) ||
         HaveCommon(a.reads, b.writes);
}

std::vector<std::size_t> LanesOf(const TrainingGraph& graph,
                                 const MemoryRound& round, int streams) {
  std::vector<std::size_t> lane_of(round.events.size());
  if (streams == 1) return lane_of;
  TaskOrder order;  // by blocks alone
  std::vector<const Task*> tasks;
  std::vector<Nanoseconds> ends;
  std::vector<Lane> lanes(static_cast<std::size_t>(streams));
  for (std::size_t i = 0; i < round.events.size(); ++i) {
    const MemoryEvent& event = round.events[i];
    if (event.op != EventOp::kCompute ||
        event.stream != MemoryStream::kCompute) {
      continue;
    }
    const std::size_t place = tasks.size();
    const Task& task = graph.tasks[event.task];
    order.Add([&](std::size_t other) { return Conflict(*tasks[other], task); });
    tasks.push_back(&task);
    Lane& lane = Choose(order, place, &lanes);
    for (const std::size_t before : order.After(place)) {
      lane.end = std::max(lane.end, ends[before]);
    }
    lane.end += event.duration;
    lane.last = place;
    ends.push_back(lane.end);
    lane_of[i] = static_cast<std::size_t>(&lane - lanes.data());
  }
  return lane_of;
}

}  // namespace ucudnn
