#include "solver/arena/best_fit.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace ucudnn {

Placement PlaceInOrder(std::span<const Block> blocks,
                       std::span<const std::size_t> order) {
  Placement placement;
  placement.offsets.resize(blocks.size());
  std::vector<std::size_t> placed;  // by rising offset
  placed.reserve(blocks.size());
  for (const std::size_t b : order) {
    const Block& block = blocks[b];
    std::int64_t lowest = 0;
    for (const std::size_t p : placed) {
      if (placement.offsets[p] >= lowest + block.size) break;
      if (blocks[p].begin < block.end && block.begin < blocks[p].end) {
        lowest = std::max(lowest, placement.offsets[p] + blocks[p].size);
      }
    }
    placement.offsets[b] = lowest;
    placement.pool = std::max(placement.pool, lowest + block.size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), lowest,
                                   [&](std::int64_t offset, std::size_t p) {
                                     return offset < placement.offsets[p];
                                   }),
                  b);
  }
  return placement;
}

Placement PlaceGreedily(std::span<const Block> blocks, std::int64_t enough) {
  using Key = std::tuple<double, double>;
  using Rank = Key (*)(const Block&);
  constexpr std::array<Rank, 5> kRanks = {
      [](const Block& b) { return Key(-double(b.size), -double(b.length())); },
      [](const Block& b) {
        return Key(-double(b.size) * double(b.length()), -double(b.size));
      },
      [](const Block& b) { return Key(-double(b.length()), -double(b.size)); },
      [](const Block& b) { return Key(double(b.begin), -double(b.size)); },
      [](const Block& b) { return Key(-double(b.end), -double(b.size)); }};
  Placement best;
  best.pool = std::numeric_limits<std::int64_t>::max();
  std::vector<std::size_t> order(blocks.size());
  for (const Rank& rank : kRanks) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) {
                       return rank(blocks[a]) < rank(blocks[b]);
                     });
    Placement placement = PlaceInOrder(blocks, order);
    if (placement.pool < best.pool) best = std::move(placement);
    if (best.pool <= enough) break;
  }
  return best;
}

}  // namespace ucudnn
