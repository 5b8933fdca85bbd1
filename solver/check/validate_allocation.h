#ifndef UCUDNN_SOLVER_CHECK_VALIDATE_ALLOCATION_H_
#define UCUDNN_SOLVER_CHECK_VALIDATE_ALLOCATION_H_

// Checks an allocation in the slow obvious way, every pair of buffers, without
// any code of the solver. Tests check every allocation, and debug builds every
// one that Allocate returns.

#include <span>

#include "solver/arena/allocation.h"

namespace ucudnn {

// Ok if `allocation` places `buffers` as `options` allow:
//   - each buffer has an offset that is not negative and is aligned;
//   - buffers live at the same time do not overlap, with sizes rounded up;
//   - the pool is the largest offset + size, and within the capacity;
//   - the load is the largest sum of sizes live at once;
//   - the bound lies between load and pool, and `proven` says whether it equals
//     the pool.
// kInternal otherwise, naming the buffers. O(buffers^2) time; pure.
Status ValidateAllocation(const Allocation& allocation,
                          std::span<const Buffer> buffers,
                          const AllocationOptions& options);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_CHECK_VALIDATE_ALLOCATION_H_
