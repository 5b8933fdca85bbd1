#ifndef UCUDNN_SOLVER_MEMORY_MEMORY_POOL_H_
#define UCUDNN_SOLVER_MEMORY_MEMORY_POOL_H_

// A memory manager as training programs have one: it gives out ranges of one
// pool as they are asked for, knowing nothing of what is to come. What is
// released becomes free at a time of its own, when whatever still uses it
// ends; who cannot wait must take a range that is free already.
//
//   pool.Release(x, 40us, freed);      // an offload ends then
//   pool.Take(size, 30us);             // nothing: x is not free yet
//   pool.NextRelease();                // freed
//   pool.Take(size, 40us);             // now
//
// Without addresses it only counts: for plans whose blocks are placed later.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/training/memory_plan.h"
#include "base/units.h"

namespace ucudnn {

class MemoryPool {
 public:
  enum class Fit {
    kBest,            // the smallest free range that is large enough
    kFirst,           // the lowest one
    kExactThenFirst,  // one of exactly this size, else the lowest (modnn 3.3)
    kCount,           // no addresses: the sum of sizes is what counts
  };

  // Sizes are rounded up to multiples of `unit`, except by kCount.
  MemoryPool(Bytes capacity, Fit fit, Bytes unit);

  bool has_addresses() const { return fit_ != Fit::kCount; }

  // A range of `size` that is free at `now`; absent if there is none. All
  // ranges that kCount gives begin at 0. Time does not go back: a range that
  // was free at an earlier call's `now` is taken to be free.
  std::optional<MemoryRange> Take(Bytes size, Nanoseconds now);
  // The one that Take would take.
  std::optional<MemoryRange> Find(Bytes size, Nanoseconds now);

  // Takes just this range, which is free.
  void TakeAt(MemoryRange range);
  // The same of a range that is free or released (not of kCount): who takes it
  // waits for the releases.
  void TakeReleased(MemoryRange range);

  // Gives back a range as Take or TakeAt gave it, from `when` on, which is when
  // `event` of the timeline ends.
  void Release(MemoryRange range, Nanoseconds when, std::size_t event);

  // The event with which the next range becomes free after those that did;
  // absent if nothing is to be released.
  std::optional<std::size_t> NextRelease() const;

  // What is released and was not free at the latest `now`, earliest first.
  struct Pending {
    MemoryRange range;
    std::size_t event;
    Nanoseconds when{0};
  };
  std::vector<Pending> Releases() const;

  // The largest size that Take would give at `now`.
  Bytes LargestFree(Nanoseconds now);

  // The free ranges at `now`, by offset (not of kCount).
  const std::map<std::int64_t, std::int64_t>& FreeRanges(Nanoseconds now) {
    Settle(now);
    return free_;
  }

 private:
  std::int64_t Rounded(Bytes size) const;
  // Frees what is released until `now`.
  void Settle(Nanoseconds now);
  void Free(MemoryRange range);

  Fit fit_;
  std::int64_t unit_;
  std::int64_t available_;                     // sum of free sizes
  std::map<std::int64_t, std::int64_t> free_;  // offset -> size
  std::multimap<Nanoseconds, Pending> pending_;
};

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_MEMORY_MEMORY_POOL_H_
