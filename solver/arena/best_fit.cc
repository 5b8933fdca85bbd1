#include "solver/arena/best_fit.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
#include <utility>

namespace ucudnn {
namespace {

constexpr std::size_t kMostForAllOrders = 4096;

// The sort key: blocks with the smallest key are placed first.
using Key = std::tuple<double, double>;
using Rank = Key (*)(double size, double begin, double end);

Key ByBegin(double size, double begin, double /*end*/) {
  return {begin, -size};
}

constexpr std::array<Rank, 5> kRanks = {
    ByBegin,
    [](double size, double begin, double end) {
      return Key(-size, begin - end);
    },
    [](double size, double begin, double end) {
      return Key(size * (begin - end), -size);
    },
    [](double size, double begin, double end) {
      return Key(begin - end, -size);
    },
    [](double size, double /*begin*/, double end) { return Key(-end, -size); }};

// If the order is by begin, forgets blocks that end before the next one begins.
Placement PlaceInOrder(std::span<const Block> blocks,
                       std::span<const std::size_t> order, bool by_begin) {
  Placement placement;
  placement.offsets.resize(blocks.size());
  std::vector<std::size_t> placed;  // by rising offset
  for (const std::size_t b : order) {
    const Block& block = blocks[b];
    if (by_begin) {
      std::erase_if(
          placed, [&](std::size_t p) { return blocks[p].end <= block.begin; });
    }
    std::int64_t lowest = 0;
    for (const std::size_t p : placed) {
      if (placement.offsets[p] >= lowest + block.size) break;
      if (blocks[p].begin < block.end && block.begin < blocks[p].end) {
        lowest = std::max(lowest, placement.offsets[p] + blocks[p].size);
      }
    }
    placement.offsets[b] = lowest;
    placement.pool = std::max(placement.pool, lowest + block.size);
    placed.insert(std::ranges::upper_bound(
                      placed, lowest, {},
                      [&](std::size_t p) { return placement.offsets[p]; }),
                  b);
  }
  return placement;
}

}  // namespace

Placement PlaceGreedily(std::span<const Block> blocks, std::int64_t enough,
                        const std::stop_token& stop) {
  Placement best;
  best.pool = std::numeric_limits<std::int64_t>::max();
  std::vector<std::pair<Key, std::size_t>> keyed(blocks.size());
  std::vector<std::size_t> order(blocks.size());
  for (const Rank& rank : kRanks) {
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const Block& block = blocks[b];
      keyed[b] = {rank(static_cast<double>(block.size),
                       static_cast<double>(block.begin),
                       static_cast<double>(block.end)),
                  b};
    }
    std::ranges::sort(keyed);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = keyed[i].second;
    Placement placement = PlaceInOrder(blocks, order, rank == ByBegin);
    if (placement.pool < best.pool) best = std::move(placement);
    if (best.pool <= enough || stop.stop_requested() ||
        blocks.size() > kMostForAllOrders) {
      break;
    }
  }
  return best;
}

}  // namespace ucudnn
