#ifndef UCUDNN_CLIENT_DROPIN_PLANNER_SEGMENTS_H_
#define UCUDNN_CLIENT_DROPIN_PLANNER_SEGMENTS_H_

// Assigns the segments of an arena that kernels share under a total workspace
// (WD). A kernel here is one layer's convolution on one handle and one stream,
// so two that may run at once never share bytes.
//
// Owners announce kernels. Kernels of the network that the job names are
// reserved until an owner announces one of that shape. A division assigns each
// kernel a plan with an offset, and all of them an epoch number.
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
    LocalSolver::Kernel kernel;
    std::uint64_t epoch = 0;  // 0: not in a division yet
    KernelPlan plan;          // with its offset
  };

  // A new owner gets the slot reserved for such a kernel, or a new slot that
  // the next division must include. kResourceExhausted if there are too many
  // slots: the program creates streams without end.
  Status Announce(const Owner& owner, const LocalSolver::Kernel& kernel);
  // The slot of an announced owner.
  const Slot& At(const Owner& owner) const { return slots_.at(owner); }

  // Reserves slots until there is one for each entry of `kernels`.
  void Reserve(std::span<const LocalSolver::Kernel> kernels);
  // Drops all reservations; whether there were any.
  bool DropReserved();

  // All kernels, in the order in which Assign takes their plans.
  std::vector<LocalSolver::Kernel> Kernels() const;
  void Assign(std::vector<KernelPlan> plans, std::uint64_t epoch);

  // Drops a destroyed handle's kernels.
  void Forget(const void* handle);

 private:
  std::map<Owner, Slot> slots_;  // reserved slots have no handle
  std::uint64_t reserved_ = 0;   // the number of the last reserved slot
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_PLANNER_SEGMENTS_H_
