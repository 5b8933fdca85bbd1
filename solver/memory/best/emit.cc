#include "solver/memory/best/emit.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "solver/memory/timeline.h"

namespace ucudnn {
namespace {

using MemoryStream::kCompute;

// The gaps in which something happens at each boundary.
std::vector<std::vector<std::size_t>> ByBoundary(
    const std::vector<std::size_t>& order, const std::vector<char>& moved,
    const std::vector<int>& boundary, int end) {
  std::vector<std::vector<std::size_t>> lists(static_cast<std::size_t>(end) +
                                              1);
  for (const std::size_t g : order) {
    if (moved[g] && boundary[g] >= 0) {
      lists[static_cast<std::size_t>(boundary[g])].push_back(g);
    }
  }
  return lists;
}

}  // namespace

MemoryRound EmitRound(const Scheduler& scheduler, const TaskOptions& options,
                      const std::vector<ResidentBlock>& residents,
                      const std::vector<char>& moved,
                      const RoundSchedule& schedule) {
  const RoundProgram& program = scheduler.program();
  const RoundModel& round = *program.round;
  const bool duplex = round.graph->device.duplex;
  const MemoryStream out = duplex ? MemoryStream::kD2h : MemoryStream::kCopy;
  const MemoryStream in = duplex ? MemoryStream::kH2d : MemoryStream::kCopy;
  const auto freed =
      ByBoundary(scheduler.by_until(), moved, schedule.freed, program.end());
  const auto fetched =
      ByBoundary(scheduler.by_until(), moved, schedule.fetched, program.end());
  Timeline timeline(round);
  for (const ResidentBlock& resident : residents) {
    timeline.Resident(resident.block, std::nullopt);
  }
  std::vector<std::optional<Timeline::Event>> copies(round.size.size());
  std::size_t next_copy = 0;
  const auto start_copies = [&](int place) {
    for (; next_copy < schedule.copies.size() &&
           schedule.copies[next_copy].place <= place;
         ++next_copy) {
      const BlockGap& gap = program.gaps[schedule.copies[next_copy].gap];
      Timeline::Events after;
      if (gap.written < place) after = timeline.Last(kCompute);
      copies[gap.block] = timeline.Offload(gap.block, out, std::move(after));
    }
  };
  const auto stays = [&](std::size_t g) {
    return !program.gaps[g].forced &&
           schedule.freed[g] == schedule.fetched[g] &&
           schedule.freed[g] == program.gaps[g].until;
  };
  Timeline::Events waits;
  const auto free_blocks = [&](std::size_t k) {
    for (const std::size_t g : freed[k]) {
      const std::size_t block = program.gaps[g].block;
      if (stays(g)) {
        if (copies[block]) waits.push_back(*copies[block]);
      } else if (timeline.OnDevice(block)) {
        timeline.Free(block, kCompute);
      }
    }
  };

  for (std::size_t k = 0; k < program.tasks.size(); ++k) {
    free_blocks(k);
    for (const std::size_t g : fetched[k]) {
      if (stays(g)) continue;
      const std::size_t block = program.gaps[g].block;
      timeline.Alloc(block, in, std::nullopt, timeline.Last(kCompute));
      timeline.Prefetch(block, in);
    }
    const std::size_t task = program.tasks[k];
    for (const std::size_t block : round.graph->tasks[task].writes) {
      if (timeline.OnDevice(block)) continue;
      timeline.Alloc(block, kCompute, std::nullopt);
    }
    timeline.Compute(task, options.RunOf(task, schedule.option[k]),
                     std::nullopt, std::move(waits));
    waits = {};
    for (const std::size_t block : program.DiesAt(k)) {
      timeline.Free(block, kCompute);
    }
    start_copies(static_cast<int>(k));
  }
  free_blocks(program.tasks.size());
  return timeline.Finish();
}

}  // namespace ucudnn
