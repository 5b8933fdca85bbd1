#include "client/dropin/planner/segments.h"

#include <algorithm>
#include <utility>

namespace ucudnn {
namespace {

constexpr std::size_t kMaxSlots = 16384;

}  // namespace

Status SegmentTable::Announce(const Owner& owner,
                              const LocalSolver::Kernel& kernel) {
  if (slots_.contains(owner)) return {};
  // Slots without a handle sort first.
  for (auto slot = slots_.begin();
       slot != slots_.end() && slot->first.handle == nullptr; ++slot) {
    if (slot->second.kernel != kernel) continue;
    auto node = slots_.extract(slot);
    node.key() = owner;
    slots_.insert(std::move(node));
    return {};
  }
  if (slots_.size() >= kMaxSlots) {
    return Fail(Code::kResourceExhausted, "more than {} kernels", kMaxSlots);
  }
  slots_[owner] = {kernel, 0, {}};
  return {};
}

void SegmentTable::Reserve(std::span<const LocalSolver::Kernel> kernels) {
  std::vector<LocalSolver::Kernel> there = Kernels();
  for (const LocalSolver::Kernel& kernel : kernels) {
    const auto found = std::ranges::find(there, kernel);
    if (found != there.end()) {
      there.erase(found);
    } else if (slots_.size() < kMaxSlots) {
      slots_[{nullptr, ++reserved_, nullptr}] = {kernel, 0, {}};
    }
  }
}

bool SegmentTable::DropReserved() {
  return std::erase_if(slots_, [](const auto& slot) {
           return slot.first.handle == nullptr;
         }) > 0;
}

std::vector<LocalSolver::Kernel> SegmentTable::Kernels() const {
  std::vector<LocalSolver::Kernel> kernels;
  for (const auto& [owner, slot] : slots_) kernels.push_back(slot.kernel);
  return kernels;
}

void SegmentTable::Assign(std::vector<KernelPlan> plans, std::uint64_t epoch) {
  UCUDNN_CHECK(plans.size() == slots_.size());
  auto plan = plans.begin();
  for (auto& [owner, slot] : slots_) {
    slot.plan = std::move(*plan++);
    slot.epoch = epoch;
  }
}

void SegmentTable::Forget(const void* handle) {
  std::erase_if(slots_,
                [&](const auto& slot) { return slot.first.handle == handle; });
}

}  // namespace ucudnn
