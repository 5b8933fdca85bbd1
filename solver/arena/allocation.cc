#include "solver/arena/allocation.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <string_view>

#include "solver/arena/best_fit.h"
#include "solver/arena/placement_search.h"
#include "solver/check/validate.h"
#include "solver/check/validate_allocation.h"

namespace ucudnn {
namespace {

constexpr Bytes kMostBytes{std::int64_t{1} << 60};
constexpr std::int64_t kNodesToNameAPool = 100'000;

Status Check(std::span<const Buffer> buffers,
             const AllocationOptions& options) {
  if (options.alignment < Bytes(1) || options.alignment > kMostBytes) {
    return Fail(Code::kInvalidArgument,
                "the alignment is {}; 1 to 2^60 is accepted",
                options.alignment.count());
  }
  if (options.capacity && *options.capacity < Bytes(1)) {
    return Fail(Code::kInvalidArgument,
                "the capacity is {}; 1 or more is accepted",
                options.capacity->count());
  }
  Bytes total;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    if (buffer.end < buffer.begin) {
      return Fail(Code::kInvalidArgument,
                  "buffer {} ends at {}, before it begins at {}", i, buffer.end,
                  buffer.begin);
    }
    if (buffer.size < Bytes(0)) {
      return Fail(Code::kInvalidArgument,
                  "buffer {} has size {}; 0 or more is accepted", i,
                  buffer.size.count());
    }
    if (buffer.size > kMostBytes ||
        (total += RoundUp(buffer.size, options.alignment)) > kMostBytes) {
      return Fail(Code::kOutOfRange,
                  "the sizes add up to more than 2^60 bytes at buffer {}", i);
    }
  }
  return {};
}

// The buffers that need memory, with times as ranks and sizes in units.
struct Prepared {
  std::vector<Block> blocks;
  std::vector<std::size_t> buffer;  // of each block
  Bytes unit;                       // divides every size and offset
};

Prepared Prepare(std::span<const Buffer> buffers, Bytes alignment) {
  Prepared prepared;
  std::vector<std::int64_t> times;
  std::int64_t unit = 0;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& buffer = buffers[i];
    if (buffer.begin == buffer.end || buffer.size == Bytes(0)) continue;
    prepared.buffer.push_back(i);
    prepared.blocks.push_back(
        {buffer.begin, buffer.end, RoundUp(buffer.size, alignment).count()});
    unit = std::gcd(unit, prepared.blocks.back().size);
    times.push_back(buffer.begin);
    times.push_back(buffer.end);
  }
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto number = [&times](std::int64_t time) {
    return std::ranges::lower_bound(times, time) - times.begin();
  };
  for (Block& block : prepared.blocks) {
    block = {number(block.begin), number(block.end), block.size / unit};
  }
  prepared.unit = Bytes(std::max<std::int64_t>(unit, 1));
  return prepared;
}

std::int64_t LoadOf(std::span<const Block> blocks) {
  std::vector<std::int64_t> change;
  for (const Block& block : blocks) {
    const auto end = static_cast<std::size_t>(block.end);
    if (change.size() <= end) change.resize(end + 1);
    change[static_cast<std::size_t>(block.begin)] += block.size;
    change[end] -= block.size;
  }
  std::int64_t live = 0;
  std::int64_t load = 0;
  for (const std::int64_t step : change) load = std::max(load, live += step);
  return load;
}

// What is known of the smallest pool, in units.
struct Known {
  Placement best;
  std::int64_t lower_bound = 0;
};

// Says why there is no allocation, and what is known of a sufficient capacity.
tl::unexpected<Error> DoesNotFit(const Allocation& best, Bytes capacity) {
  const std::string_view why =
      best.lower_bound > capacity
          ? "the buffers do not fit"
          : "no allocation was found within the limits that fits";
  if (best.proven) {
    return FailBelow(
        best.pool.count(),
        "{} the capacity of {} bytes; the smallest that would do is {}", why,
        capacity.count(), best.pool.count());
  }
  return FailBelow(
      best.pool.count(),
      "{} the capacity of {} bytes; {} would do, and the smallest that would "
      "is at least {}",
      why, capacity.count(), best.pool.count(), best.lower_bound.count());
}

struct Effort {
  SectionRule section;
  BlockRule block;
};

// The shortest restart. Shorter rounds are left to the fixed orders, which
// decide most instances.
constexpr std::int64_t kStepsOfRestart = 3'000;

// No rule is best for all instances, so the rules take turns.
constexpr std::array kEfforts = {
    Effort{SectionRule::kMostConflicts, BlockRule::kLongest},
    Effort{SectionRule::kMostConflicts, BlockRule::kMostCrowded},
    Effort{SectionRule::kFewestChoices, BlockRule::kMostCrowded},
    Effort{SectionRule::kFewestChoices, BlockRule::kLongest},
    Effort{SectionRule::kMostConflicts, BlockRule::kCrowdedAndLong},
    Effort{SectionRule::kFewestChoices, BlockRule::kCrowdedAndLong}};

// The n-th length of a restart, from 1: 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ...
// Luby, Sinclair, Zuckerman, "Optimal speedup of Las Vegas algorithms" (1993).
std::int64_t Luby(std::int64_t n) {
  while (true) {
    std::int64_t power = 1;
    while (power - 1 < n) power *= 2;
    if (power - 1 == n) return power / 2;
    n -= power / 2 - 1;
  }
}

// The searches for a smaller pool, and what they have found.
class Improvement {
 public:
  // `known` must have an allocation.
  Improvement(std::span<const Block> blocks, std::int64_t enough,
              const Limits& limits, Known* known)
      : enough_(enough),
        limits_(limits),
        known_(*known),
        at_bound_(blocks),
        between_(blocks),
        varied_(blocks, /*varied=*/true) {}

  // Searches until the best pool is at most `enough` or meets the lower bound,
  // until the bound exceeds `enough`, or until the limits end it. Rounds grow
  // in length so that a rule that gets stuck costs no more than the one that
  // succeeds.
  void Run() {
    if (!at_bound_.within_reach()) return;
    for (std::int64_t steps = 2 * at_bound_.blocks() + 64; !Ended();
         steps *= 2) {
      for (const Effort& effort : kEfforts) {
        Ask(&at_bound_, Goal(), effort, steps);
        if (enough_ > 0) continue;
        for (const int quarter : {2, 3, 4}) {
          const std::int64_t gap = known_.best.pool - 1 - known_.lower_bound;
          Ask(&between_,
              known_.lower_bound + gap / 4 * quarter + gap % 4 * quarter / 4,
              effort, steps);
        }
      }
      if (steps >= 2 * kStepsOfRestart) Restart(std::ssize(kEfforts) * steps);
    }
  }

 private:
  // The pool that ends the search.
  std::int64_t Goal() const { return std::max(enough_, known_.lower_bound); }
  std::int64_t Nodes() const {
    return at_bound_.nodes() + between_.nodes() + varied_.nodes();
  }
  bool Ended() const {
    return known_.best.pool <= Goal() ||
           (enough_ > 0 && known_.lower_bound > enough_) ||
           Nodes() >= limits_.max_nodes || limits_.stop.stop_requested();
  }

  // Many short searches for the goal, in varied orders: a long one does not
  // leave where its first decisions led it.
  void Restart(std::int64_t steps) {
    while (steps > 0 && !Ended()) {
      const std::int64_t length = kStepsOfRestart * Luby(++restarts_);
      Ask(&varied_, Goal(),
          kEfforts[static_cast<std::size_t>(restarts_) % kEfforts.size()],
          length);
      steps -= length;
    }
  }

  // Searches for a pool of size `target` and records what the result proves.
  void Ask(PlacementSearch* search, std::int64_t target, const Effort& effort,
           std::int64_t steps) {
    if (Ended()) return;
    const Limits left{limits_.max_nodes - Nodes() + search->nodes(),
                      limits_.stop};
    switch (search->Fit(target, effort.section, effort.block, steps, left)) {
      case Verdict::kFits:
        known_.best.offsets = search->offsets();
        known_.best.pool = search->pool();
        break;
      case Verdict::kImpossible:
        known_.lower_bound = target + 1;
        break;
      case Verdict::kUndecided:
        break;
    }
  }

  std::int64_t enough_;
  Limits limits_;
  Known& known_;
  // Conflicts learnt between the bound and the best pool mislead the search at
  // the bound, so each has a search of its own.
  PlacementSearch at_bound_;
  PlacementSearch between_;
  PlacementSearch varied_;
  std::int64_t restarts_ = 0;
};

}  // namespace

Bytes Load(std::span<const Buffer> buffers) {
  const Prepared prepared = Prepare(buffers, Bytes(1));
  return prepared.unit * LoadOf(prepared.blocks);
}

Result<Allocation> Allocate(std::span<const Buffer> buffers,
                            const AllocationOptions& options,
                            const Limits& limits) {
  UCUDNN_RETURN_IF_ERROR(Check(buffers, options));
  const Prepared prepared = Prepare(buffers, options.alignment);
  const std::span<const Block> blocks = prepared.blocks;
  const std::int64_t unit = prepared.unit.count();
  Allocation allocation;
  allocation.offsets.resize(buffers.size());
  allocation.load = prepared.unit * LoadOf(blocks);
  // A buffer that is never live still has to fit into the pool.
  Bytes largest;
  for (const Buffer& buffer : buffers) {
    largest = std::max(largest, RoundUp(buffer.size, options.alignment));
  }
  const Bytes capacity = options.capacity.value_or(Bytes(0));
  const std::int64_t enough =
      std::max(capacity, largest).count() / unit;  // for blocks

  Known known;
  known.lower_bound = std::max(allocation.load, largest).count() / unit;
  known.best =
      PlaceGreedily(blocks, std::max(enough, known.lower_bound), limits.stop);
  const bool may_fit = largest <= capacity && known.lower_bound <= enough;
  if (!options.capacity || may_fit) {
    Improvement(blocks, options.capacity ? enough : 0, limits, &known).Run();
  }
  if (options.capacity && known.best.pool > enough) {
    // It did not fit: search a little more for a pool to name in the error.
    Limits some = limits;
    some.max_nodes = std::min(limits.max_nodes, kNodesToNameAPool);
    Improvement(blocks, 0, some, &known).Run();
  }

  for (std::size_t i = 0; i < blocks.size(); ++i) {
    allocation.offsets[prepared.buffer[i]] =
        prepared.unit * known.best.offsets[i];
  }
  allocation.pool = std::max(prepared.unit * known.best.pool, largest);
  allocation.lower_bound = std::max(prepared.unit * known.lower_bound, largest);
  allocation.proven = allocation.pool == allocation.lower_bound;
  if (options.capacity && allocation.pool > capacity) {
    return DoesNotFit(allocation, capacity);
  }
  if (kSolversCheckThemselves)
    RequireValid(ValidateAllocation(allocation, buffers, options));
  return allocation;
}

}  // namespace ucudnn
