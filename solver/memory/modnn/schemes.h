#ifndef UCUDNN_SOLVER_MEMORY_MODNN_SCHEMES_H_
#define UCUDNN_SOLVER_MEMORY_MODNN_SCHEMES_H_

// moDNN's offload schemes: which neighbours in memory make room for an
// allocation that does not fit.
//
// Source: moDNN (see sub_batch.h), section 5.2.1 and figure 6: for an
// allocation of size 4, where block 4 must stay, there are two schemes.
//
//   | 1 (2) | 2 (2) | 3 (1) | 4 (must stay) | 5 (3) | 6 (1) |
//   `---- one ------'                       `---- other ----'

#include <cstddef>
#include <optional>
#include <vector>

#include "base/training/memory_plan.h"
#include "base/units.h"

namespace ucudnn {

// A segment of the pool. Segments are listed by address without gaps.
struct PoolSegment {
  enum class Kind {
    kFree,       // from `ready` on
    kEvictable,  // holds `block`, complete at `ready`; its copy to the host
                 // takes `copy`, nothing if the host has one
    kTaken,
  };
  MemoryRange range;
  Kind kind = Kind::kTaken;
  Nanoseconds ready{0};
  Nanoseconds copy{0};
  std::size_t block = 0;
};

struct OffloadScheme {
  Bytes offset;                     // of its first segment
  std::vector<std::size_t> blocks;  // to evict, by address
  Nanoseconds delay{0};             // until all of it is free
};

// Of all runs of neighbouring segments that are free or evictable and have
// `size` bytes, none longer than it must be, the one that is free first; of
// those the lowest. Offloads follow each other on a link that is free from
// `link_free` on; delays count from `now`. Absent if there is none.
// O(segments^2).
std::optional<OffloadScheme> FindOffloadScheme(
    const std::vector<PoolSegment>& segments, Bytes size, Nanoseconds link_free,
    Nanoseconds now);

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_MODNN_SCHEMES_H_
