#include "solver/check/memory_host.h"

#include "solver/check/memory_violation.h"

namespace ucudnn::memory_check {

HostCopies::HostCopies(const MemoryRound& round, const TrainingGraph& graph,
                       const EventOrder& order)
    : round_(round),
      graph_(graph),
      order_(order),
      copies_(graph.blocks.size()) {}

void HostCopies::Begin(std::size_t block) {
  copies_[block].version = kStart;
  Count(block);
}

Status HostCopies::Read(std::size_t i, std::size_t block) {
  Copy& copy = copies_[block];
  if (copy.writer && !order_.Before(*copy.writer, i)) {
    return Violation(18, EventName(round_, graph_, i),
                     "nothing makes it wait for {}",
                     EventName(round_, graph_, *copy.writer));
  }
  copy.readers.push_back(i);
  return {};
}

Status HostCopies::Write(std::size_t i, std::size_t block, Version version) {
  Copy& copy = copies_[block];
  std::vector<std::size_t> users = copy.readers;
  if (copy.writer) users.push_back(*copy.writer);
  for (const std::size_t user : users) {
    if (user == i || order_.Before(user, i)) continue;
    return Violation(18, EventName(round_, graph_, i),
                     "the copy of {} on the host is in use by {}",
                     graph_.blocks[block].name,
                     EventName(round_, graph_, user));
  }
  copy = {version, i, {}};
  Count(block);
  return {};
}

void HostCopies::Count(std::size_t block) {
  if (graph_.blocks[block].kind == BlockKind::kInput) return;
  sizes_[block] = graph_.blocks[block].SizeAt(round_.batch);
}

}  // namespace ucudnn::memory_check
