#ifndef UCUDNN_SOLVER_ARENA_ALLOCATION_H_
#define UCUDNN_SOLVER_ARENA_ALLOCATION_H_

// Static allocation: gives buffers of known lifetimes offsets in one pool, so
// that no two overlap that are live at once, and the pool is small.
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
// No pool is smaller than the load; the smallest may have to be larger. The
// problem is NP-hard. solver/arena/arena.h is another one: there the segments'
// sizes are to be chosen too, and what runs at once is series-parallel.

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
  // The pool may not be larger, and a pool within it is enough. Without it the
  // smallest pool is sought.
  std::optional<Bytes> capacity;
  // Offsets are multiples of it, and sizes count rounded up to it.
  Bytes alignment{1};
};

struct Allocation {
  std::vector<Bytes> offsets;  // of each buffer
  Bytes pool;                  // the largest offset + size
  Bytes load;                  // the largest sum of sizes live at once
  Bytes lower_bound;           // no pool is smaller: the load, or proven
  bool proven = false;         // pool == lower_bound

  friend bool operator==(const Allocation&, const Allocation&) = default;
};

// The smallest pool, or, if `limits` end the search first, the smallest that
// was found, with the bound that was proven. Deterministic unless it is
// stopped; pure.
//
// kInvalidArgument if a buffer ends before it begins or has a negative size,
// or if the alignment or the capacity is not positive; kOutOfRange if all
// sizes together exceed 2^60. kFailedPrecondition if no allocation within the
// capacity was found; the message says whether there is none, and names the
// smallest pool that was found and the bound.
Result<Allocation> Allocate(std::span<const Buffer> buffers,
                            const AllocationOptions& options,
                            const Limits& limits);

// The largest sum of sizes live at once, sizes as they are.
Bytes Load(std::span<const Buffer> buffers);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ARENA_ALLOCATION_H_
