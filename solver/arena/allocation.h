#ifndef UCUDNN_SOLVER_ARENA_ALLOCATION_H_
#define UCUDNN_SOLVER_ARENA_ALLOCATION_H_

// Static allocation: gives buffers of known lifetimes offsets in one pool so
// that buffers live at the same time do not overlap and the pool is small.
//
//   offset
//    12 +-----------------------+
//       |   0   |       1       |
//     8 +-----------------------+     load 12: the largest sum of sizes
//       |   2                   |3    live at once, here at any time
//     4 +-----------------------+---
//       |   4
//     0 +---------------------------
//       0       3               9   time
//
// The load is a lower bound that cannot always be reached. The problem is
// NP-hard. solver/arena/arena.h solves a different one: it also chooses the
// segments' sizes, and concurrency there is series-parallel.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/files/buffers.h"
#include "base/result.h"
#include "base/units.h"
#include "solver/limits.h"

namespace ucudnn {

struct AllocationOptions {
  // Any pool up to this size will do. If absent, the search is for the smallest
  // pool.
  std::optional<Bytes> capacity;
  // Offsets are multiples of the alignment; sizes are rounded up to it.
  Bytes alignment{1};
};

struct Allocation {
  std::vector<Bytes> offsets;  // of each buffer
  Bytes pool;                  // the largest offset + size
  Bytes load;                  // the largest sum of sizes live at once
  Bytes lower_bound;           // of every pool: the load, or what was proven
  bool proven = false;         // pool == lower_bound

  friend bool operator==(const Allocation&, const Allocation&) = default;
};

// The smallest pool; if `limits` end the search first, the smallest one found
// and the bound proven so far. Pure; deterministic unless stopped.
//
// kInvalidArgument if a buffer ends before it begins or has a negative size,
// or if the alignment or the capacity is not positive; kOutOfRange if all
// sizes sum to more than 2^60. kFailedPrecondition if no allocation within the
// capacity was found; the message says whether that was proven impossible, and
// names the smallest pool found and the bound.
Result<Allocation> Allocate(std::span<const Buffer> buffers,
                            const AllocationOptions& options,
                            const Limits& limits);

// The largest sum of sizes live at once, without rounding for alignment.
Bytes Load(std::span<const Buffer> buffers);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ARENA_ALLOCATION_H_
