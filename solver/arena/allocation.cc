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
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto number = [&times](std::int64_t time) {
    return std::lower_bound(times.begin(), times.end(), time) - times.begin();
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
    return Fail(Code::kFailedPrecondition,
                "{} the capacity of {} bytes; the smallest that would do is {}",
                why, capacity.count(), best.pool.count());
  }
  return Fail(Code::kFailedPrecondition,
              "{} the capacity of {} bytes; {} would do, and the smallest that "
              "would is at least {}",
              why, capacity.count(), best.pool.count(),
              best.lower_bound.count());
}

struct Effort {
  SectionRule section;
  BlockRule block;
};

// No rule is best for all instances, so the rules take turns.
constexpr std::array kEfforts = {
    Effort{SectionRule::kMostConflicts, BlockRule::kLongest},
    Effort{SectionRule::kMostConflicts, BlockRule::kMostCrowded},
    Effort{SectionRule::kFewestChoices, BlockRule::kMostCrowded},
    Effort{SectionRule::kFewestChoices, BlockRule::kLongest},
    Effort{SectionRule::kMostConflicts, BlockRule::kCrowdedAndLong},
    Effort{SectionRule::kFewestChoices, BlockRule::kCrowdedAndLong}};

// Searches for a pool of size `target` and records what the result proves.
void Ask(std::int64_t target, const Effort& effort, std::int64_t max_steps,
         const Limits& limits, PlacementSearch* search, Known* known) {
  switch (
      search->Fit(target, effort.section, effort.block, max_steps, limits)) {
    case Verdict::kFits:
      known->best.offsets = search->offsets();
      known->best.pool = search->pool();
      break;
    case Verdict::kImpossible:
      known->lower_bound = target + 1;
      break;
    case Verdict::kUndecided:
      break;
  }
}

// Searches until the best pool is at most `enough` or meets the lower bound,
// until the bound exceeds `enough`, or until `limits` end it. Rounds grow in
// length so that a rule that gets stuck costs no more than the one that
// succeeds.
void Improve(std::span<const Block> blocks, std::int64_t enough,
             const Limits& limits, Known* known) {
  // Conflicts learnt between the bound and the best pool mislead the search at
  // the bound, so each has a search of its own.
  PlacementSearch at_bound(blocks);
  if (!at_bound.within_reach()) return;
  PlacementSearch between(blocks);
  for (std::int64_t steps = 2 * std::ssize(blocks) + 64;; steps *= 2) {
    for (const Effort& effort : kEfforts) {
      for (const int quarter : {0, 2, 3, 4}) {
        PlacementSearch& search = quarter == 0 ? at_bound : between;
        const PlacementSearch& other = quarter == 0 ? between : at_bound;
        if (known->best.pool <= std::max(enough, known->lower_bound) ||
            (enough > 0 && known->lower_bound > enough) ||
            search.nodes() + other.nodes() >= limits.max_nodes ||
            limits.stop.stop_requested()) {
          return;
        }
        if (enough > 0) {
          Ask(enough, effort, steps, limits, &search, known);
          break;
        }
        const std::int64_t gap = known->best.pool - 1 - known->lower_bound;
        const std::int64_t target =
            known->lower_bound + gap / 4 * quarter + gap % 4 * quarter / 4;
        Ask(target, effort, steps,
            {limits.max_nodes - other.nodes(), limits.stop}, &search, known);
      }
    }
  }
}

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
    Improve(blocks, options.capacity ? enough : 0, limits, &known);
  }
  if (options.capacity && known.best.pool > enough) {
    // It did not fit: search a little more for a pool to name in the error.
    Limits some = limits;
    some.max_nodes = std::min(limits.max_nodes, kNodesToNameAPool);
    Improve(blocks, 0, some, &known);
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
  if constexpr (kSolversCheckThemselves) {
    RequireValid(ValidateAllocation(allocation, buffers, options));
  }
  return allocation;
}

}  // namespace ucudnn
