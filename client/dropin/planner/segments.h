#ifndef UCUDNN_CLIENT_DROPIN_PLANNER_SEGMENTS_H_
#define UCUDNN_CLIENT_DROPIN_PLANNER_SEGMENTS_H_

// Who has which segment of an arena that kernels share under a total workspace
// (WD): a kernel is a convolution of one layer, on one handle and one stream,
// so that two that may run at once never share bytes.
//
// Kernels are announced by their owners, or reserved by the network that the
// job names until an owner comes who has such a kernel. A division gives each
// its plan with an offset, and a number, the epoch, that all of it share.
//
// Not thread safe.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/plan/plan.h"
#include "base/result.h"
#include "client/dropin/planner/planner.h"

namespace ucudnn {

class SegmentTable {
 public:
  struct Owner {
    const void* handle = nullptr;
    std::uint64_t call = 0;  // the handle's number for the convolution
    const void* stream = nullptr;
    friend auto operator<=>(const Owner&, const Owner&) = default;
  };
  struct Slot {
    LocalPlanner::Kernel kernel;
    std::uint64_t epoch = 0;  // 0: not divided in yet
    KernelPlan plan;          // with its offset
  };

  // An owner that is new gets the slot that is reserved for such a kernel, or
  // one that the next division has to take into account.
  // kResourceExhausted if there are too many: a program that makes streams
  // without end.
  Status Announce(const Owner& owner, const LocalPlanner::Kernel& kernel);
  // The owner's; it has been announced.
  const Slot& At(const Owner& owner) const { return slots_.at(owner); }

  // Reserves what is not there yet of `kernels`, as often as each is named.
  void Reserve(std::span<const LocalPlanner::Kernel> kernels);
  // Gives up what is reserved; whether there was anything.
  bool DropReserved();

  // All of them, in the order in which Assign takes plans.
  std::vector<LocalPlanner::Kernel> Kernels() const;
  void Assign(std::vector<KernelPlan> plans, std::uint64_t epoch);

  // The handle is gone.
  void Forget(const void* handle);

 private:
  std::map<Owner, Slot> slots_;  // reserved ones have no handle
  std::uint64_t reserved_ = 0;   // numbers them
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_PLANNER_SEGMENTS_H_
