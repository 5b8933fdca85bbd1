#include "solver/check/validate_allocation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "solver/check/validate.h"

namespace ucudnn {
namespace {

bool Meet(const Buffer& a, const Buffer& b) {
  return std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

}  // namespace

Status ValidateAllocation(const Allocation& allocation,
                          std::span<const Buffer> buffers,
                          const AllocationOptions& options) {
  const std::vector<Bytes>& offsets = allocation.offsets;
  const std::int64_t unit = options.alignment.count();
  if (offsets.size() != buffers.size()) {
    return Wrong("{} buffers have {} offsets", buffers.size(), offsets.size());
  }
  std::vector<Bytes> ends;
  Bytes pool;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (offsets[i] < Bytes(0) || offsets[i].count() % unit != 0) {
      return Wrong("buffer {} has offset {}; alignment is {}", i,
                   offsets[i].count(), unit);
    }
    const std::int64_t units = (buffers[i].size.count() + unit - 1) / unit;
    ends.push_back(offsets[i] + Bytes(units * unit));
    pool = std::max(pool, ends[i]);
  }
  Bytes load;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    // The load is reached when some buffer begins.
    Bytes live;
    for (std::size_t j = 0; j < buffers.size(); ++j) {
      if (buffers[j].begin <= buffers[i].begin &&
          buffers[i].begin < buffers[j].end) {
        live += ends[j] - offsets[j];
      }
      if (j < i && Meet(buffers[i], buffers[j]) &&
          std::max(offsets[i], offsets[j]) < std::min(ends[i], ends[j])) {
        return Wrong("buffers {} [{}, {}) and {} [{}, {}) overlap", j,
                     offsets[j].count(), ends[j].count(), i, offsets[i].count(),
                     ends[i].count());
      }
    }
    load = std::max(load, live);
  }
  if (allocation.pool != pool || allocation.load != load) {
    return Wrong("pool is {}, not {}; load is {}, not {}", pool.count(),
                 allocation.pool.count(), load.count(),
                 allocation.load.count());
  }
  if (options.capacity && pool > *options.capacity) {
    return Wrong("pool {} exceeds the capacity {}", pool.count(),
                 options.capacity->count());
  }
  if (allocation.lower_bound < load || allocation.lower_bound > pool ||
      allocation.proven != (allocation.lower_bound == pool)) {
    return Wrong("'proven' is {}, load {}, bound {}, pool {}",
                 allocation.proven, load.count(),
                 allocation.lower_bound.count(), pool.count());
  }
  return {};
}

}  // namespace ucudnn
