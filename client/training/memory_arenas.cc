#include "client/training/memory_arenas.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace ucudnn {
namespace {

constexpr Bytes kHostAlignment{256};

}  // namespace

Result<MemoryArenas> MemoryArenas::Allocate(Device& device,
                                            const TrainingGraph& training,
                                            const MemoryPlan& plan,
                                            DeviceBuffer* host) {
  MemoryArenas arenas;
  auto arena = device.Allocate(plan.peak);
  if (!arena) {
    return Within(fmt::format("the plan's arena of {} ({} bytes)",
                              HumanBytes(plan.peak), plan.peak.count()),
                  std::move(arena).error());
  }
  arenas.device_ = *std::move(arena);
  arenas.Place(training, plan);
  DeviceBuffer* const used = host != nullptr ? host : &arenas.own_host_;
  if (used->size() < arenas.host_bytes_) {
    used->Reset();
    auto memory = device.AllocateHost(arenas.host_bytes_);
    if (!memory) {
      return Within(fmt::format("the plan's {} of host memory",
                                HumanBytes(arenas.host_bytes_)),
                    std::move(memory).error());
    }
    *used = *std::move(memory);
  }
  arenas.host_ = static_cast<char*>(used->data());
  return arenas;
}

void MemoryArenas::Place(const TrainingGraph& training,
                         const MemoryPlan& plan) {
  std::vector<bool> moves(training.blocks.size());
  std::vector<bool> resident(training.blocks.size());
  BatchSize largest(1);
  for (const ResidentBlock& block : plan.resident) {
    resident[block.block] = true;
  }
  for (const MemoryRound& round : plan.rounds) {
    largest = std::max(largest, round.batch);
    for (const MemoryEvent& event : round.events) {
      if (event.op == EventOp::kOffload || event.op == EventOp::kPrefetch) {
        moves[event.block] = true;
      }
    }
  }
  offsets_.resize(training.blocks.size());
  for (std::size_t i = 0; i < training.blocks.size(); ++i) {
    const MemoryBlock& block = training.blocks[i];
    if (block.kind == BlockKind::kInput) continue;
    if (!moves[i] && (!block.persistent || resident[i])) continue;
    offsets_[i] = host_bytes_.count();
    host_bytes_ += RoundUp(block.SizeAt(largest), kHostAlignment);
  }
}

std::vector<char*> MemoryArenas::ResidentPlaces(const MemoryPlan& plan) const {
  std::vector<char*> places(offsets_.size());
  for (const ResidentBlock& resident : plan.resident) {
    places[resident.block] = At(resident.range.offset);
  }
  return places;
}

}  // namespace ucudnn
