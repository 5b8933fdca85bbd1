#include "solver/assign_kinds.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

namespace ucudnn::assign_internal {
namespace {

constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

std::size_t BlocksOf(std::size_t costs) {
  return (costs + Kind::kBlock - 1) / Kind::kBlock;
}

// Checks a table in the one pass, from its end, that also finds the least
// times: large tables cost what reading them costs.
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
    if (i % Kind::kBlock == 0) (*least_from)[i / Kind::kBlock] = least;
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

// The least times of the batches of the block that ends at `end`, each of this
// batch or any later one.
std::vector<std::int64_t> LeastTimesOfBlock(const Kind& kind, std::size_t end) {
  if (end == 0) return {};
  const std::size_t block = (end - 1) / Kind::kBlock;
  std::int64_t least = block + 1 < kind.least_from.size()
                           ? kind.least_from[block + 1]
                           : kForever;
  std::vector<std::int64_t> times(end - block * Kind::kBlock);
  for (std::size_t i = times.size(); i-- > 0;) {
    least = std::min<std::int64_t>(
        least, kind.costs[block * Kind::kBlock + i].time.count());
    times[i] = least;
  }
  return times;
}

std::vector<std::int64_t> LeastFrom(std::span<const BatchCost> costs) {
  std::vector<std::int64_t> least_from(BlocksOf(costs.size()));
  std::int64_t least = kForever;
  for (std::size_t i = costs.size(); i-- > 0;) {
    least = std::min<std::int64_t>(least, costs[i].time.count());
    if (i % Kind::kBlock == 0) least_from[i / Kind::kBlock] = least;
  }
  return least_from;
}

// The batches of `table` up to `largest` that `gpu` may use.
void Restrict(const std::vector<BatchCost>& table, const AssignGpu& gpu,
              BatchSize largest, Kind* kind) {
  const BatchSize most = std::min(largest, gpu.max_batch);
  auto end = std::upper_bound(
      table.begin(), table.end(), most,
      [](BatchSize b, const BatchCost& cost) { return b < cost.batch; });
  if (gpu.allowed.empty() && gpu.memory_limit == Bytes::Max()) {
    kind->costs = {table.begin(), end};
    return;
  }
  for (auto it = table.begin(); it != end; ++it) {
    if (it->memory > gpu.memory_limit) continue;
    if (!gpu.allowed.empty() &&
        !std::binary_search(gpu.allowed.begin(), gpu.allowed.end(),
                            it->batch)) {
      continue;
    }
    kind->own_costs.push_back(*it);
  }
  kind->costs = kind->own_costs;
}

}  // namespace

std::size_t Kind::LargestWithin(std::int64_t time) const {
  const auto blocks = static_cast<std::size_t>(
      std::upper_bound(least_from.begin(), least_from.end(), time) -
      least_from.begin());
  if (blocks == 0) return 0;
  // It is in the last of these blocks.
  std::size_t end = std::min(blocks * kBlock, costs.size());
  while (costs[end - 1].time.count() > time) --end;
  return end;
}

Result<std::vector<Kind>> MakeKinds(const AssignProblem& problem,
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
  std::vector<Kind> kinds;
  // Kinds by table; few GPUs of a table differ in what else limits them.
  std::vector<std::vector<std::size_t>> of_table(problem.tables.size());
  for (std::size_t g = 0; g < problem.gpus.size(); ++g) {
    const AssignGpu& gpu = problem.gpus[g];
    if (gpu.table >= problem.tables.size()) {
      return Fail(Code::kInvalidArgument,
                  "GPU {} has table {}, but there are {}", g, gpu.table,
                  problem.tables.size());
    }
    if (!std::is_sorted(gpu.allowed.begin(), gpu.allowed.end())) {
      return Fail(Code::kInvalidArgument,
                  "the allowed batches of GPU {} are not sorted", g);
    }
    auto& candidates = of_table[gpu.table];
    const auto same =
        std::find_if(candidates.begin(), candidates.end(), [&](std::size_t k) {
          return problem.gpus[kinds[k].gpus.front()] == gpu;
        });
    if (same != candidates.end()) {
      kinds[*same].gpus.push_back(g);
      continue;
    }
    candidates.push_back(kinds.size());
    Kind& kind = kinds.emplace_back();
    kind.gpus.push_back(g);
    Restrict(problem.tables[gpu.table], gpu, largest, &kind);
    const auto& table = problem.tables[gpu.table];
    // A kind of a whole table takes over what the check found.
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

// Bisects the kinds' least times one kind after the other: each kind's lie
// sorted, blocks first, and the interval that is left holds ever fewer.
std::optional<std::int64_t> LeastEnough(
    std::span<const Kind> kinds,
    const std::function<bool(std::int64_t)>& enough) {
  std::int64_t low = -1;
  std::int64_t high = -1;
  for (const Kind& kind : kinds) {
    for (const std::int64_t time : LeastTimesOfBlock(kind, kind.costs.size())) {
      high = std::max(high, time);
    }
  }
  if (high < 0 || !enough(high)) return std::nullopt;
  const auto bisect = [&](std::span<const std::int64_t> times) {
    while (true) {
      const auto first = std::upper_bound(times.begin(), times.end(), low);
      const auto last = std::lower_bound(first, times.end(), high);
      if (first == last) return;
      const std::int64_t middle = first[(last - first) / 2];
      (enough(middle) ? high : low) = middle;
    }
  };
  for (const Kind& kind : kinds) bisect(kind.least_from);
  for (const Kind& kind : kinds) {
    // No block's time lies between; those of the batches around `low` may.
    const auto blocks = static_cast<std::size_t>(
        std::upper_bound(kind.least_from.begin(), kind.least_from.end(), low) -
        kind.least_from.begin());
    if (blocks == 0) continue;
    bisect(LeastTimesOfBlock(
        kind, std::min(blocks * Kind::kBlock, kind.costs.size())));
  }
  return high;
}

bool Sums::AddOneOf(std::span<const Run> runs) {
  const std::size_t size = words_.size();
  const auto or_shifted = [size](std::vector<std::uint64_t>* to,
                                 const std::vector<std::uint64_t>& from,
                                 std::int64_t shift) {
    const auto whole = static_cast<std::size_t>(shift / 64);
    const int bits = static_cast<int>(shift % 64);
    // From above, so that `to` may be `from`.
    for (std::size_t i = size; i-- > whole;) {
      std::uint64_t word = from[i - whole] << bits;
      if (bits != 0 && i > whole) word |= from[i - whole - 1] >> (64 - bits);
      (*to)[i] |= word;
    }
  };
  std::vector<std::uint64_t> next = words_;
  std::vector<std::uint64_t> smeared;
  for (const Run& run : runs) {
    if (run.first > largest_) continue;
    if (run.first == run.last) {
      or_shifted(&next, words_, run.first);
      continue;
    }
    smeared.assign(size, 0);
    or_shifted(&smeared, words_, run.first);
    const std::int64_t length = std::min(run.last, largest_) - run.first + 1;
    for (std::int64_t done = 1; done < length;) {
      const std::int64_t shift = std::min(done, length - done);
      or_shifted(&smeared, smeared, shift);
      done += shift;
    }
    for (std::size_t i = 0; i < size; ++i) next[i] |= smeared[i];
  }
  const int spare = static_cast<int>((largest_ + 1) % 64);
  if (spare != 0) next.back() &= (std::uint64_t{1} << spare) - 1;
  const bool changed = next != words_;
  words_.swap(next);
  return changed;
}

std::int64_t Reach::Most(std::int64_t time) const {
  std::int64_t sum = 0;
  for (const Kind& kind : kinds_) {
    sum += kind.count() * kind.LargestBatchWithin(time);
  }
  return sum;
}

Reach::Question Reach::Ask(std::int64_t time) const {
  const std::int64_t excess = Most(time) - batch_;
  Question question;
  question.from_most = excess <= batch_;
  question.target = question.from_most ? excess : batch_;
  question.runs.resize(kinds_.size());
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    const Kind& kind = kinds_[k];
    auto& runs = question.runs[k];
    const auto add = [&](std::int64_t number) {
      if (number == 0) return;
      if (!runs.empty() && runs.back().last + 1 == number) {
        runs.back().last = number;
      } else {
        runs.push_back({number, number});
      }
    };
    const std::size_t end = kind.LargestWithin(time);
    if (end == 0) continue;
    const std::int64_t most = kind.costs[end - 1].batch.count();
    if (!question.from_most) {
      for (std::size_t i = 0; i < end; ++i) {
        if (kind.costs[i].time.count() <= time) {
          add(kind.costs[i].batch.count());
        }
      }
      continue;
    }
    for (std::size_t i = end; i-- > 0;) {
      const std::int64_t less = most - kind.costs[i].batch.count();
      if (less > question.target) break;
      if (kind.costs[i].time.count() <= time) add(less);
    }
    if (most <= question.target) add(most);
  }
  return question;
}

bool Reach::CanHold(std::int64_t time) const {
  if (Most(time) < batch_) return false;
  const Question question = Ask(time);
  Sums sums(question.target);
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    for (std::int64_t i = 0; i < kinds_[k].count(); ++i) {
      if (sums.Has(question.target)) return true;
      if (!sums.AddOneOf(question.runs[k])) break;
    }
  }
  return sums.Has(question.target);
}

std::optional<std::int64_t> Reach::LeastTimeForMost() const {
  return LeastEnough(kinds_,
                     [&](std::int64_t time) { return Most(time) >= batch_; });
}

Result<std::optional<std::int64_t>> Reach::LeastTime(
    std::stop_token stop) const {
  using Found = std::optional<std::int64_t>;
  const Found least = LeastTimeForMost();
  if (!least.has_value()) return Found();
  if (CanHold(*least)) return least;
  std::int64_t low = *least;  // cannot be held
  std::int64_t last = low;    // the largest time of all
  for (const Kind& kind : kinds_) {
    for (const BatchCost& cost : kind.costs) {
      last = std::max<std::int64_t>(last, cost.time.count());
    }
  }
  // Outwards in growing steps, since the answer is near.
  std::int64_t high = low;
  for (std::int64_t step = std::max<std::int64_t>(low / 4096, 1);;
       step = std::min(2 * step, kForever / 4)) {
    if (stop.stop_requested()) return Fail(Code::kCancelled, "stopped");
    if (high == last) return Found();
    high = step > last - high ? last : high + step;
    if (CanHold(high)) break;
    low = high;
  }
  // Then by halves of the times that lie between, `high` among them.
  std::vector<std::int64_t> times;
  for (const Kind& kind : kinds_) {
    for (const BatchCost& cost : kind.costs) {
      if (cost.time.count() > low && cost.time.count() <= high) {
        times.push_back(cost.time.count());
      }
    }
  }
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  auto begin = times.begin();
  auto end = times.end() - 1;  // the last one can be held
  while (begin != end) {
    if (stop.stop_requested()) return Fail(Code::kCancelled, "stopped");
    const auto middle = begin + (end - begin) / 2;
    if (CanHold(*middle)) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return Found(*begin);
}

std::vector<std::int64_t> Reach::AnyWithin(std::int64_t time) const {
  const Question question = Ask(time);
  std::vector<Sums> before;  // each GPU
  std::vector<std::size_t> kind_of;
  Sums sums(question.target);
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    for (std::int64_t i = 0; i < kinds_[k].count(); ++i) {
      before.push_back(sums);
      kind_of.push_back(k);
      sums.AddOneOf(question.runs[k]);
    }
  }
  UCUDNN_CHECK(sums.Has(question.target));
  std::vector<std::int64_t> batches(kind_of.size());
  std::int64_t left = question.target;
  for (std::size_t g = kind_of.size(); g-- > 0;) {
    const Kind& kind = kinds_[kind_of[g]];
    std::int64_t taken = 0;
    if (!before[g].Has(left)) {
      for (const Sums::Run& run : question.runs[kind_of[g]]) {
        for (std::int64_t n = run.first; n <= std::min(run.last, left); ++n) {
          if (taken == 0 && before[g].Has(left - n)) taken = n;
        }
      }
    }
    left -= taken;
    batches[g] =
        question.from_most ? kind.LargestBatchWithin(time) - taken : taken;
  }
  UCUDNN_CHECK(left == 0);
  return batches;
}

Reach::Nearest Reach::NearestSums() const {
  // The nearest sum above B uses one GPU more than a sum below it.
  std::int64_t largest = 0;
  std::int64_t most = 0;
  for (const Kind& kind : kinds_) {
    if (kind.costs.empty()) continue;
    largest = std::max(largest, kind.costs.back().batch.count());
    most += kind.count() * kind.costs.back().batch.count();
  }
  Sums sums(std::min(most, batch_ + largest));
  for (const Kind& kind : kinds_) {
    std::vector<Sums::Run> runs;
    for (const BatchCost& cost : kind.costs) {
      const std::int64_t batch = cost.batch.count();
      if (!runs.empty() && runs.back().last + 1 == batch) {
        runs.back().last = batch;
      } else {
        runs.push_back({batch, batch});
      }
    }
    for (std::int64_t i = 0; i < kind.count(); ++i) {
      if (!sums.AddOneOf(runs)) break;
    }
  }
  Nearest nearest;
  for (std::int64_t s = std::min(batch_ - 1, sums.largest()); s > 0; --s) {
    if (sums.Has(s)) {
      nearest.below = s;
      break;
    }
  }
  for (std::int64_t s = batch_ + 1; s <= sums.largest(); ++s) {
    if (sums.Has(s)) {
      nearest.above = s;
      break;
    }
  }
  return nearest;
}

}  // namespace ucudnn::assign_internal
