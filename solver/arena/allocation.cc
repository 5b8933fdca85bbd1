#include "solver/arena/allocation.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "solver/arena/best_fit.h"
#include "solver/check/validate.h"
#include "solver/check/validate_allocation.h"

namespace ucudnn {
namespace {

constexpr Bytes kMostBytes{std::int64_t{1} << 60};

// Both at most 2^60.
Bytes RoundUp(Bytes size, Bytes unit) {
  return (size + unit - Bytes(1)) / unit.count() * unit.count();
}

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

// The buffers that matter, with their times numbered and their sizes in units.
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

}  // namespace

Bytes Load(std::span<const Buffer> buffers) {
  const Prepared prepared = Prepare(buffers, Bytes(1));
  return prepared.unit * LoadOf(prepared.blocks);
}

Result<Allocation> Allocate(std::span<const Buffer> buffers,
                            const AllocationOptions& options,
                            const Limits& limits) {
  static_cast<void>(limits);
  UCUDNN_RETURN_IF_ERROR(Check(buffers, options));
  const Prepared prepared = Prepare(buffers, options.alignment);
  Allocation allocation;
  allocation.offsets.resize(buffers.size());
  allocation.load = prepared.unit * LoadOf(prepared.blocks);
  allocation.lower_bound = allocation.load;
  // A buffer that is never live needs room nevertheless.
  for (const Buffer& buffer : buffers) {
    allocation.lower_bound = std::max(allocation.lower_bound,
                                      RoundUp(buffer.size, options.alignment));
  }
  const Bytes enough =
      std::max(allocation.lower_bound, options.capacity.value_or(Bytes(0)));
  const Placement placement =
      PlaceGreedily(prepared.blocks, enough.count() / prepared.unit.count());
  for (std::size_t i = 0; i < prepared.blocks.size(); ++i) {
    allocation.offsets[prepared.buffer[i]] =
        prepared.unit * placement.offsets[i];
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    allocation.pool = std::max(
        allocation.pool,
        allocation.offsets[i] + RoundUp(buffers[i].size, options.alignment));
  }
  allocation.proven = allocation.pool == allocation.lower_bound;
  if (options.capacity && allocation.pool > *options.capacity) {
    return Fail(Code::kFailedPrecondition,
                "no allocation within the capacity of {} bytes was found; the "
                "smallest pool that was found has {} bytes, and none has less "
                "than {}",
                options.capacity->count(), allocation.pool.count(),
                allocation.lower_bound.count());
  }
  if constexpr (kSolversCheckThemselves) {
    RequireValid(ValidateAllocation(allocation, buffers, options));
  }
  return allocation;
}

}  // namespace ucudnn
