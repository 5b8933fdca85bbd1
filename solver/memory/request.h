#ifndef UCUDNN_SOLVER_MEMORY_REQUEST_H_
#define UCUDNN_SOLVER_MEMORY_REQUEST_H_

// What every policy is asked for.

#include <array>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string_view>

#include "base/units.h"

namespace ucudnn {

// Who decides where blocks lie.
enum class MemoryAllocator {
  kPolicy,  // the policy's own memory manager, as things happen
  kStatic,  // solver/arena/allocation.h, once all lifetimes are known
};

struct MemoryRequest {
  Bytes budget;
  MemoryAllocator allocator = MemoryAllocator::kPolicy;
  // Rounds of so many images instead of what the policy would choose.
  std::optional<BatchSize> sub_batch = {};
  int gpus = 1;
  bool offload_weights = false;
  bool recompute = false;
  // How many tasks may run at once where addresses allow it (PlaceForStreams).
  int streams = 1;
  // Whatever fits will do: policies that search stop at the first plan.
  bool any_plan = false;
  // Looked at by policies that search; the best plan found until then counts,
  // and says that it was cut off.
  std::stop_token stop = {};
};

// Of every plan: offsets are multiples of it.
inline constexpr Bytes kPlanAlignment{256};

// Rounded up to it.
constexpr Bytes Aligned(Bytes bytes) { return RoundUp(bytes, kPlanAlignment); }

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_REQUEST_H_
