#include "solver/memory/round_draft.h"

#include <algorithm>
#include <utility>

namespace ucudnn {

std::vector<ResidentBlock> PlaceResidents(const std::vector<RoundModel>& rounds,
                                          Bytes unit) {
  std::vector<ResidentBlock> residents;
  const RoundModel& first = rounds.front();
  Bytes end;
  const auto place = [&](std::size_t block) {
    Bytes bytes;
    for (const RoundModel& round : rounds) {
      bytes = std::max(bytes, round.size[block]);
    }
    residents.push_back({block, {end, bytes}});
    end += RoundUp(bytes, unit);
  };
  for (std::size_t i = 0; i < first.size.size(); ++i) {
    if (first.persistent[i]) place(i);
  }
  for (std::size_t i = 0; i < first.size.size(); ++i) {
    if (first.IsInput(i)) place(i);
  }
  return residents;
}

Bytes EndOf(const std::vector<ResidentBlock>& residents) {
  Bytes end;
  for (const ResidentBlock& resident : residents) {
    end = std::max(end, resident.range.offset + resident.range.bytes);
  }
  return end;
}

RoundDraft::RoundDraft(const RoundModel& round,
                       const std::vector<ResidentBlock>& residents,
                       Bytes budget, MemoryPool::Fit fit, Bytes unit,
                       bool placed)
    : round_(round),
      budget_(budget),
      pool_(budget, fit, unit),
      placed_(placed && pool_.has_addresses()),
      timeline_(round),
      ranges_(round.size.size()) {
  for (const ResidentBlock& resident : residents) {
    pool_.TakeAt(resident.range);
    ranges_[resident.block] = resident.range;
    timeline_.Resident(
        resident.block,
        placed_ ? std::optional<MemoryRange>(resident.range) : std::nullopt);
  }
}

bool RoundDraft::Alloc(std::size_t block, MemoryStream stream, Events after) {
  const std::optional<MemoryRange> range =
      pool_.Take(round_.size[block], timeline_.StartAfter(stream, after));
  if (!range) return false;
  AllocIn(*range, block, stream, std::move(after));
  return true;
}

void RoundDraft::AllocIn(MemoryRange range, std::size_t block,
                         MemoryStream stream, Events after) {
  ranges_[block] = range;
  timeline_.Alloc(block, stream, OffsetOf(range), std::move(after));
}

bool RoundDraft::AllocWaiting(std::size_t block, MemoryStream stream,
                              Events after) {
  while (!Alloc(block, stream, after)) {
    const std::optional<Event> next = pool_.NextRelease();
    if (!next) return false;
    after.push_back(*next);
  }
  return true;
}

RoundDraft::Event RoundDraft::Free(std::size_t block, MemoryStream stream,
                                   Events after) {
  const Event event = timeline_.Free(block, stream, std::move(after));
  pool_.Release(ranges_[block], timeline_.End(event), event);
  return event;
}

std::optional<MemoryRange> RoundDraft::TakeWorkspace(Bytes bytes) {
  return pool_.Take(bytes, timeline_.Now(MemoryStream::kCompute));
}

void RoundDraft::ReturnWorkspace(MemoryRange range) {
  const Events last = timeline_.Last(MemoryStream::kCompute);
  pool_.Release(range, timeline_.Now(MemoryStream::kCompute),
                last.empty() ? 0 : last.front());
}

RoundDraft::Event RoundDraft::Compute(std::size_t task, const TaskRun& run,
                                      MemoryRange workspace, Events after) {
  return timeline_.Compute(task, run, OffsetOf(workspace), std::move(after));
}

Status RoundDraft::AllocOutputs(std::size_t task, bool waiting) {
  const Task& computed = round_.graph->tasks[task];
  for (const std::size_t block : computed.writes) {
    if (timeline_.OnDevice(block)) continue;
    const bool fits = waiting ? AllocWaiting(block, MemoryStream::kCompute)
                              : Alloc(block, MemoryStream::kCompute);
    if (!fits) return NoRoomFor("what " + computed.name + " computes");
  }
  return {};
}

tl::unexpected<Error> RoundDraft::NoRoomFor(std::string_view what) const {
  return Fail(Code::kFailedPrecondition,
              "there is no room for {} in the budget of {}", what,
              HumanBytes(budget_));
}

void RoundDraft::FreeDead(std::size_t position) {
  for (std::size_t block = 0; block < round_.size.size(); ++block) {
    if (!timeline_.OnDevice(block) || round_.persistent[block] ||
        round_.UsedFrom(block, position)) {
      continue;
    }
    Free(block, MemoryStream::kCompute);
  }
}

}  // namespace ucudnn
