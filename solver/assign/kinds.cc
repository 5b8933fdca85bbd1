#include "solver/assign/kinds.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace ucudnn::assign_internal {
namespace {

std::size_t BlocksOf(std::size_t costs) {
  return (costs + GpuKind::kBlock - 1) / GpuKind::kBlock;
}

// Checks a table and finds its least times in one pass from its end, because
// the cost of a large table is the cost of reading it.
Status CheckTable(const std::vector<BatchCost>& table, std::size_t index,
                  std::int64_t most_time,
                  std::vector<std::int64_t>* least_from) {
  std::int64_t signs = 0;
  std::int64_t longest = 0;
  std::int64_t least = kForever;
  std::int64_t next = kMaxBatchSize.count() + 1;
  bool rising = true;
  least_from->resize(BlocksOf(table.size()));
  for (std::size_t i = table.size(); i-- > 0;) {
    const BatchCost& cost = table[i];
    const std::int64_t time = cost.time.count();
    rising &= cost.batch.count() < next;
    next = cost.batch.count();
    signs |= time | cost.memory.count();
    longest = std::max(longest, time);
    least = std::min(least, time);
    if (i % GpuKind::kBlock == 0) (*least_from)[i / GpuKind::kBlock] = least;
  }
  if (!rising || next < 1) {
    return Fail(Code::kInvalidArgument,
                "table {} is not by rising batch from 1 to {}", index,
                kMaxBatchSize.count());
  }
  if (signs < 0) {
    return Fail(Code::kInvalidArgument,
                "table {} has a negative time or memory", index);
  }
  if (longest > most_time) {
    return Fail(Code::kOutOfRange,
                "table {} has a time of {} ns; over all GPUs such times sum "
                "to more than 2^61",
                index, longest);
  }
  return {};
}

// For each batch of the block that ends at `end`: the least time of this batch
// and all later ones.
std::vector<std::int64_t> LeastTimesOfBlock(const GpuKind& kind,
                                            std::size_t end) {
  if (end == 0) return {};
  const std::size_t block = (end - 1) / GpuKind::kBlock;
  std::int64_t least = block + 1 < kind.least_from.size()
                           ? kind.least_from[block + 1]
                           : kForever;
  std::vector<std::int64_t> times(end - block * GpuKind::kBlock);
  for (std::size_t i = times.size(); i-- > 0;) {
    least = std::min<std::int64_t>(
        least, kind.costs[block * GpuKind::kBlock + i].time.count());
    times[i] = least;
  }
  return times;
}

std::vector<std::int64_t> LeastFrom(std::span<const BatchCost> costs) {
  std::vector<std::int64_t> least_from(BlocksOf(costs.size()));
  std::int64_t least = kForever;
  for (std::size_t i = costs.size(); i-- > 0;) {
    least = std::min<std::int64_t>(least, costs[i].time.count());
    if (i % GpuKind::kBlock == 0) least_from[i / GpuKind::kBlock] = least;
  }
  return least_from;
}

// The batches of `table` up to `largest` that `gpu` may use.
void Restrict(const std::vector<BatchCost>& table, const AssignGpu& gpu,
              BatchSize largest, GpuKind* kind) {
  const BatchSize most = std::min(largest, gpu.max_batch);
  const auto end = std::ranges::upper_bound(table, most, {}, &BatchCost::batch);
  if (gpu.allowed.empty() && gpu.memory_limit == Bytes::Max()) {
    kind->costs = {table.begin(), end};
    return;
  }
  for (auto it = table.begin(); it != end; ++it) {
    if (it->memory > gpu.memory_limit) continue;
    if (!gpu.allowed.empty() &&
        !std::ranges::binary_search(gpu.allowed, it->batch)) {
      continue;
    }
    kind->own_costs.push_back(*it);
  }
  kind->costs = kind->own_costs;
}

}  // namespace

std::size_t GpuKind::LargestWithin(std::int64_t time) const {
  const auto blocks = static_cast<std::size_t>(
      std::ranges::upper_bound(least_from, time) - least_from.begin());
  if (blocks == 0) return 0;
  // The batch is in the last of these blocks.
  std::size_t end = std::min(blocks * kBlock, costs.size());
  while (costs[end - 1].time.count() > time) --end;
  return end;
}

Result<std::vector<GpuKind>> MakeKinds(const AssignProblem& problem,
                                       BatchSize largest) {
  if (problem.batch < BatchSize(1) || problem.batch > kMaxBatchSize) {
    return Fail(Code::kInvalidArgument,
                "the mini-batch is {}; 1 to {} is accepted",
                problem.batch.count(), kMaxBatchSize.count());
  }
  if (problem.gpus.empty()) {
    return Fail(Code::kInvalidArgument, "there is no GPU to assign to");
  }
  const std::int64_t most_time =
      (std::int64_t{1} << 61) / std::ssize(problem.gpus);
  if (!problem.communication.empty() &&
      problem.communication.size() < problem.gpus.size()) {
    return Fail(Code::kInvalidArgument,
                "there are {} communication times; one for each number of "
                "GPUs is needed, {} or more",
                problem.communication.size(), problem.gpus.size());
  }
  for (const Nanoseconds time : problem.communication) {
    if (time.count() < 0) {
      return Fail(Code::kInvalidArgument, "a communication time is negative");
    }
    if (time.count() > std::int64_t{1} << 60) {
      return Fail(Code::kOutOfRange,
                  "a communication time is longer than 36 years");
    }
  }
  std::vector<std::vector<std::int64_t>> least_from(problem.tables.size());
  for (std::size_t t = 0; t < problem.tables.size(); ++t) {
    UCUDNN_RETURN_IF_ERROR(
        CheckTable(problem.tables[t], t, most_time, &least_from[t]));
  }
  std::vector<GpuKind> kinds;
  // Kinds by table; few GPUs of one table differ in their other limits.
  std::vector<std::vector<std::size_t>> of_table(problem.tables.size());
  for (std::size_t g = 0; g < problem.gpus.size(); ++g) {
    const AssignGpu& gpu = problem.gpus[g];
    if (gpu.table >= problem.tables.size()) {
      return Fail(Code::kInvalidArgument,
                  "GPU {} has table {}, but there are {}", g, gpu.table,
                  problem.tables.size());
    }
    if (!std::ranges::is_sorted(gpu.allowed)) {
      return Fail(Code::kInvalidArgument,
                  "the allowed batches of GPU {} are not sorted", g);
    }
    auto& candidates = of_table[gpu.table];
    const auto same = std::ranges::find_if(candidates, [&](std::size_t k) {
      return problem.gpus[kinds[k].gpus.front()] == gpu;
    });
    if (same != candidates.end()) {
      kinds[*same].gpus.push_back(g);
      continue;
    }
    candidates.push_back(kinds.size());
    GpuKind& kind = kinds.emplace_back();
    kind.gpus.push_back(g);
    Restrict(problem.tables[gpu.table], gpu, largest, &kind);
    const auto& table = problem.tables[gpu.table];
    // A kind that uses a whole table takes the least times from its check.
    if (kind.costs.data() == table.data() &&
        kind.costs.size() == table.size() &&
        least_from[gpu.table].size() == BlocksOf(table.size())) {
      kind.least_from = std::move(least_from[gpu.table]);
      least_from[gpu.table].clear();
    } else {
      kind.least_from = LeastFrom(kind.costs);
    }
  }
  return kinds;
}

// Bisects the least times of one kind after the other, blocks first. Each
// kind's times are sorted, and the remaining interval holds fewer and fewer of
// them.
std::optional<std::int64_t> LeastEnough(
    std::span<const GpuKind> kinds,
    const std::function<bool(std::int64_t)>& enough) {
  std::int64_t low = -1;
  std::int64_t high = -1;
  for (const GpuKind& kind : kinds) {
    for (const std::int64_t time : LeastTimesOfBlock(kind, kind.costs.size())) {
      high = std::max(high, time);
    }
  }
  if (high < 0 || !enough(high)) return std::nullopt;
  const auto bisect = [&](std::span<const std::int64_t> times) {
    while (true) {
      const auto first = std::ranges::upper_bound(times, low);
      const auto last = std::lower_bound(first, times.end(), high);
      if (first == last) return;
      const std::int64_t middle = first[(last - first) / 2];
      (enough(middle) ? high : low) = middle;
    }
  };
  for (const GpuKind& kind : kinds) bisect(kind.least_from);
  for (const GpuKind& kind : kinds) {
    // No block's time lies between; times of the batches around `low` may.
    const auto blocks = static_cast<std::size_t>(
        std::ranges::upper_bound(kind.least_from, low) -
        kind.least_from.begin());
    if (blocks == 0) continue;
    bisect(LeastTimesOfBlock(
        kind, std::min(blocks * GpuKind::kBlock, kind.costs.size())));
  }
  return high;
}

}  // namespace ucudnn::assign_internal
