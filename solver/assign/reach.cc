#include "solver/assign/reach.h"

#include <algorithm>
#include <utility>

namespace ucudnn::assign_internal {

bool Sums::AddOneOf(std::span<const Run> runs) {
  const std::size_t size = words_.size();
  const auto or_shifted = [size](std::vector<std::uint64_t>* to,
                                 const std::vector<std::uint64_t>& from,
                                 std::int64_t shift) {
    const auto whole = static_cast<std::size_t>(shift / 64);
    const int bits = static_cast<int>(shift % 64);
    // From the top down, so that `to` may be `from`.
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
  for (const GpuKind& kind : kinds_) {
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
    const GpuKind& kind = kinds_[k];
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
  std::int64_t low = *least;  // infeasible
  std::int64_t last = low;    // the largest time of all
  for (const GpuKind& kind : kinds_) {
    for (const BatchCost& cost : kind.costs) {
      last = std::max<std::int64_t>(last, cost.time.count());
    }
  }
  // Search outwards in growing steps, since the answer is near.
  std::int64_t high = low;
  for (std::int64_t step = std::max<std::int64_t>(low / 4096, 1);;
       step = std::min(2 * step, kForever / 4)) {
    if (stop.stop_requested()) return Fail(Code::kCancelled, "stopped");
    if (high == last) return Found();
    high = step > last - high ? last : high + step;
    if (CanHold(high)) break;
    low = high;
  }
  // Then bisect the times between, including `high`.
  std::vector<std::int64_t> times;
  for (const GpuKind& kind : kinds_) {
    for (const BatchCost& cost : kind.costs) {
      if (cost.time.count() > low && cost.time.count() <= high) {
        times.push_back(cost.time.count());
      }
    }
  }
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  auto begin = times.begin();
  auto end = times.end() - 1;  // the last one is feasible
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
    const GpuKind& kind = kinds_[kind_of[g]];
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
  for (const GpuKind& kind : kinds_) {
    if (kind.costs.empty()) continue;
    largest = std::max(largest, kind.costs.back().batch.count());
    most += kind.count() * kind.costs.back().batch.count();
  }
  Sums sums(std::min(most, batch_ + largest));
  for (const GpuKind& kind : kinds_) {
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
