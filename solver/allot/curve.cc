#include "solver/allot/curve.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "solver/assign/reach.h"

namespace ucudnn::allot_internal {

using assign_internal::Sums;

namespace {

std::int64_t CountOf(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

// What the devices of a kind can take back from their largest batch, up to
// `most`, as runs.
std::vector<Sums::Run> GivenBack(const std::vector<BatchCost>& table,
                                 std::int64_t largest, std::int64_t most,
                                 std::int64_t time) {
  std::vector<Sums::Run> runs;
  auto row = std::upper_bound(
      table.begin(), table.end(), largest - 1,
      [](std::int64_t b, const BatchCost& c) { return b < c.batch.count(); });
  while (row != table.begin()) {
    --row;
    const std::int64_t less = largest - row->batch.count();
    if (less > most) break;
    if (row->time.count() > time) continue;
    if (!runs.empty() && runs.back().last + 1 == less) {
      runs.back().last = less;
    } else {
      runs.push_back({less, less});
    }
  }
  return runs;
}

}  // namespace

std::int64_t CostOf(const Counts& counts, const Prices& prices) {
  std::int64_t cost = 0;
  for (std::size_t k = 0; k < prices.size(); ++k) cost += counts[k] * prices[k];
  return cost;
}

Curve::Curve(const AllotJob& job, std::span<const std::int64_t> free)
    : kinds_(free.size()), batch_(job.batch.count()), free_(free), job_(&job) {
  const std::int64_t all =
      std::accumulate(free.begin(), free.end(), std::int64_t{0});
  // Each device has at least one image.
  const std::int64_t most = std::min({job.most, all, batch_});
  if (job.communication.empty()) {
    if (job.least <= most) groups_.push_back({job.least, most, 0});
  } else {
    for (std::int64_t n = job.least; n <= most; ++n) {
      const std::int64_t extra =
          job.communication[static_cast<std::size_t>(n) - 1].count();
      if (!groups_.empty() && groups_.back().extra == extra) {
        groups_.back().most = n;
      } else {
        groups_.push_back({n, n, extra});
      }
    }
  }
  for (std::size_t k = 0; k < kinds_; ++k) {
    if (free[k] == 0) continue;
    for (const BatchCost& cost : job.tables[k]) {
      if (cost.batch <= job.batch) times_.push_back(cost.time.count());
    }
  }
  std::ranges::sort(times_);
  times_.erase(std::unique(times_.begin(), times_.end()), times_.end());
  most_at_.assign(times_.size() * kinds_, 0);
  for (std::size_t k = 0; k < kinds_; ++k) {
    if (free[k] == 0) continue;
    for (const BatchCost& cost : job.tables[k]) {
      if (cost.batch > job.batch) break;
      const std::size_t at = Within(cost.time.count()) - 1;
      std::int64_t& value = most_at_[at * kinds_ + k];
      value = std::max(value, cost.batch.count());
    }
    for (std::size_t i = 1; i < times_.size(); ++i) {
      std::int64_t& value = most_at_[i * kinds_ + k];
      value = std::max(value, most_at_[(i - 1) * kinds_ + k]);
    }
  }
}

const Curve::Group* Curve::GroupOf(std::int64_t devices) const {
  for (const Group& group : groups_) {
    if (group.least <= devices && devices <= group.most) return &group;
  }
  return nullptr;
}

std::size_t Curve::Within(std::int64_t time) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(times_, time) -
                                  times_.begin());
}

bool Curve::HasBatch(std::size_t kind, std::int64_t batch,
                     std::int64_t time) const {
  const auto& table = job_->tables[kind];
  const auto row = std::lower_bound(
      table.begin(), table.end(), batch,
      [](const BatchCost& c, std::int64_t b) { return c.batch.count() < b; });
  return row != table.end() && row->batch.count() == batch &&
         row->time.count() <= time;
}

bool Curve::HoldsAt(const Counts& counts, std::size_t time) const {
  const auto most = MostAt(time);
  std::int64_t excess = -batch_;
  for (std::size_t k = 0; k < kinds_; ++k) {
    if (counts[k] > 0 && most[k] == 0) return false;
    excess += counts[k] * most[k];
  }
  if (excess < 0) return false;
  if (excess == 0) return true;
  // Most often one device can take all of it back.
  for (std::size_t k = 0; k < kinds_; ++k) {
    if (counts[k] > 0 && most[k] > excess &&
        HasBatch(k, most[k] - excess, times_[time])) {
      return true;
    }
  }
  Sums sums(excess);
  for (std::size_t k = 0; k < kinds_; ++k) {
    if (counts[k] == 0) continue;
    const auto runs = GivenBack(job_->tables[k], most[k], excess, times_[time]);
    for (std::int16_t i = 0; i < counts[k]; ++i) {
      if (!sums.AddOneOf(runs)) break;
    }
    if (sums.Has(excess)) return true;
  }
  return false;
}

bool Curve::Holds(const Counts& counts, std::int64_t time) const {
  const Group* group = GroupOf(CountOf(counts));
  if (group == nullptr) return false;
  const std::size_t within = Within(time - group->extra);
  return within > 0 && HoldsAt(counts, within - 1);
}

std::optional<std::int64_t> Curve::LeastTime(const Counts& counts) const {
  const Group* group = GroupOf(CountOf(counts));
  if (group == nullptr || times_.empty()) return std::nullopt;
  if (!HoldsAt(counts, times_.size() - 1)) return std::nullopt;
  return times_[FirstHeld(counts, 0, times_.size() - 1)] + group->extra;
}

std::size_t Curve::FirstHeld(const Counts& counts, std::size_t first,
                             std::size_t last) const {
  while (first < last) {
    const std::size_t middle = first + (last - first) / 2;
    if (HoldsAt(counts, middle)) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}

std::optional<std::int64_t> Curve::LeastTimeOfAll() const {
  const Prices prices(kinds_, 0);
  std::optional<std::int64_t> best;
  for (const Group& group : groups_) {
    const auto suffices = [&](std::size_t time) {
      return CheapestOfGroup(group, time, prices, kMaxCount).choice.has_value();
    };
    if (times_.empty() || !suffices(times_.size() - 1)) continue;
    std::size_t low = 0;
    std::size_t high = times_.size() - 1;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (suffices(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    const std::int64_t time = times_[low] + group.extra;
    if (!best.has_value() || time < *best) best = time;
  }
  return best;
}

std::optional<std::int64_t> Curve::NextTime(std::int64_t time) const {
  std::optional<std::int64_t> next;
  for (const Group& group : groups_) {
    const std::size_t i = Within(time - group.extra);
    if (i == times_.size()) continue;
    const std::int64_t one = times_[i] + group.extra;
    if (!next.has_value() || one < *next) next = one;
  }
  return next;
}

std::int64_t Curve::LastTime(std::int64_t time) const {
  std::int64_t last = 0;
  for (const Group& group : groups_) {
    const std::size_t i = Within(time - group.extra);
    if (i > 0) last = std::max(last, times_[i - 1] + group.extra);
  }
  return last;
}

std::vector<std::int64_t> Curve::Split(const Counts& counts,
                                       std::int64_t time) const {
  const Group* group = GroupOf(CountOf(counts));
  UCUDNN_CHECK(group != nullptr);
  const std::size_t within = Within(time - group->extra);
  UCUDNN_CHECK(within > 0);
  const auto most = MostAt(within - 1);
  std::int64_t excess = -batch_;
  for (std::size_t k = 0; k < kinds_; ++k) excess += counts[k] * most[k];
  UCUDNN_CHECK(excess >= 0);
  std::vector<Sums> before;  // each device
  std::vector<std::size_t> kind_of;
  std::vector<std::vector<Sums::Run>> runs(kinds_);
  Sums sums(excess);
  for (std::size_t k = 0; k < kinds_; ++k) {
    if (counts[k] == 0) continue;
    runs[k] = GivenBack(job_->tables[k], most[k], excess, times_[within - 1]);
    for (std::int16_t i = 0; i < counts[k]; ++i) {
      before.push_back(sums);
      kind_of.push_back(k);
      sums.AddOneOf(runs[k]);
    }
  }
  UCUDNN_CHECK(sums.Has(excess));
  std::vector<std::int64_t> batches(kind_of.size());
  for (std::size_t g = kind_of.size(); g-- > 0;) {
    std::int64_t taken = 0;
    if (!before[g].Has(excess)) {
      for (const Sums::Run& run : runs[kind_of[g]]) {
        for (std::int64_t n = run.first;
             taken == 0 && n <= std::min(run.last, excess); ++n) {
          if (before[g].Has(excess - n)) taken = n;
        }
      }
    }
    excess -= taken;
    batches[g] = most[kind_of[g]] - taken;
  }
  UCUDNN_CHECK(excess == 0);
  return batches;
}

}  // namespace ucudnn::allot_internal
