#ifndef UCUDNN_SOLVER_ALLOT_CURVE_H_
#define UCUDNN_SOLVER_ALLOT_CURVE_H_

// What one job needs of a cluster, for solver/allot: which numbers of devices
// of each kind let it make a step within a time.
//
// Whether n devices suffice within time t is a question about sums (symbols:
// docs/solver.md). Let S_k be the batches of kind k that take no longer than t,
// so that a_k is the largest. The devices suffice if a batch of S_k for each of
// the n_k devices of each kind can be chosen so that they sum to B. That needs
// sum n_k a_k >= B, and the excess must be taken back exactly.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "solver/allot/allot.h"

namespace ucudnn::allot_internal {

// Devices of each kind.
using Counts = std::array<std::int16_t, kMaxAllotKinds>;

// A job may have some numbers of devices, with one price each in all.
struct Choice {
  Counts counts{};
  std::int64_t cost = 0;
  std::int64_t time = 0;  // of a step, where it is known
};

// Prices for a device of each kind; none is negative.
using Prices = std::vector<std::int64_t>;

// Steps that one walk through a job's choices may take, chosen so that jobs of
// 64 devices of 6 kinds (tests/bench/allot_bench.cc) stay far below.
inline constexpr std::int64_t kMostWalkSteps = 4'000'000;

std::int64_t CostOf(const Counts& counts, const Prices& prices);

// Reads `job` and `free`, which must outlive it. Thread-safe once made.
class Curve {
 public:
  Curve(const AllotJob& job, std::span<const std::int64_t> free);

  // Numbers of devices that share a time for the exchange.
  struct Group {
    std::int64_t least = 0;
    std::int64_t most = 0;
    std::int64_t extra = 0;  // the exchange's time
  };
  const std::vector<Group>& groups() const { return groups_; }
  // The times of all usable batches, rising; a step takes one of them plus its
  // group's extra.
  const std::vector<std::int64_t>& times() const { return times_; }
  // The largest batch of each kind within times()[i]; 0 if there is none.
  std::span<const std::int64_t> MostAt(std::size_t i) const {
    return {most_at_.data() + i * kinds_, kinds_};
  }

  // Whether exactly these devices, each with at least one image, make a step
  // within `time`.
  bool Holds(const Counts& counts, std::int64_t time) const;
  // The least such time; absent if they cannot process the mini-batch at all.
  std::optional<std::int64_t> LeastTime(const Counts& counts) const;
  // The least time with any devices; absent if there is none.
  std::optional<std::int64_t> LeastTimeOfAll() const;
  // The least step time that exceeds `time`; absent if there is none.
  std::optional<std::int64_t> NextTime(std::int64_t time) const;
  // The longest step time up to `time`; 0 if there is none.
  std::int64_t LastTime(std::int64_t time) const;

  // The number of times() that are within `time`.
  std::size_t Within(std::int64_t time) const;

  // The cheapest devices of a group that make a step within times()[time],
  // without the extra.
  struct Cheapest {
    std::optional<Choice> choice;
    std::int64_t bound = 0;  // no devices cost less; `below` if there are none
  };
  Cheapest CheapestOfGroup(const Group& group, std::size_t time,
                           const Prices& prices, std::int64_t below,
                           std::int64_t most_steps = kMostWalkSteps) const;

  // Appends the devices that make a step within some of times()[first..last]
  // and cost at most `most`, each with the least of these times that it holds,
  // without the extra. Leaves out those that would do with one device less, and
  // perhaps others that contain a smaller choice. Returns false if there were
  // more than `limit`, or if they were too many to walk through.
  bool AddChoicesOfGroup(const Group& group, std::size_t first,
                         std::size_t last, const Prices& prices,
                         std::int64_t most, std::size_t limit,
                         std::vector<Choice>* choices) const;

  // The first of times()[first..last] that `counts` hold; they hold the last.
  std::size_t FirstHeld(const Counts& counts, std::size_t first,
                        std::size_t last) const;

  // One batch for each device, kind after kind. `counts` must hold `time`.
  std::vector<std::int64_t> Split(const Counts& counts,
                                  std::int64_t time) const;

 private:
  friend class Walk;

  // Of the group of `devices`; null if the job may not have so many.
  const Group* GroupOf(std::int64_t devices) const;
  bool HoldsAt(const Counts& counts, std::size_t time) const;
  bool HasBatch(std::size_t kind, std::int64_t batch, std::int64_t time) const;

  std::size_t kinds_;
  std::int64_t batch_;
  std::span<const std::int64_t> free_;
  const AllotJob* job_;
  std::vector<Group> groups_;
  std::vector<std::int64_t> times_;
  std::vector<std::int64_t> most_at_;
};

}  // namespace ucudnn::allot_internal

#endif  // UCUDNN_SOLVER_ALLOT_CURVE_H_
