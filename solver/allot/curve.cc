#include "solver/allot/curve.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "solver/assign/reach.h"

namespace ucudnn::allot_internal {

using assign_internal::Sums;

namespace {

// Steps that one walk through a job's choices may take. Jobs of 64 devices of 6
// kinds stay far below.
constexpr std::int64_t kMostSteps = 4'000'000;

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

// Walks through the choices of one group within one time, by depth first over
// the kinds, from the least to the most worthwhile at these prices.
class Walk {
 public:
  Walk(const Curve& curve, const Curve::Group& group, std::size_t time,
       const Prices& prices)
      : curve_(curve),
        group_(group),
        time_(time),
        prices_(prices),
        most_(curve.MostAt(time)) {
    for (std::size_t k = 0; k < curve.kinds_; ++k) {
      if (most_[k] > 0 && curve.free_[k] > 0) order_.push_back(k);
    }
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      const double left = Rate(a);
      const double right = Rate(b);
      if (left != right) return left > right;
      return most_[a] != most_[b] ? most_[a] < most_[b] : a < b;
    });
    const std::size_t n = order_.size();
    devices_from_.assign(n + 1, 0);
    batch_from_.assign(n + 1, 0);
    largest_from_.assign(n + 1, 0);
    cheapest_from_.assign(n + 1, kMaxCount);
    for (std::size_t i = n; i-- > 0;) {
      const std::size_t k = order_[i];
      devices_from_[i] = devices_from_[i + 1] + curve.free_[k];
      batch_from_[i] = batch_from_[i + 1] + curve.free_[k] * most_[k];
      largest_from_[i] = std::max(largest_from_[i + 1], most_[k]);
      cheapest_from_[i] = std::min(cheapest_from_[i + 1], prices[k]);
    }
  }

  // The cheapest choice that costs less than `below`.
  std::optional<Choice> FindCheapest(std::int64_t below) {
    cap_ = below - 1;
    keep_one_ = true;
    Visit(0, 0, curve_.batch_, 0, true);
    if (choices_.empty()) return std::nullopt;
    return choices_.front();
  }
  // Appends every minimal choice that costs at most `cap`.
  void FindAll(std::int64_t cap, std::size_t limit,
               std::vector<Choice>* choices) {
    cap_ = cap;
    limit_ = limit;
    Visit(0, 0, curve_.batch_, 0, true);
    choices->insert(choices->end(), choices_.begin(), choices_.end());
  }
  bool complete() const { return complete_; }

  // What any choice costs at least, without looking for one.
  double LeastCost() const { return LeastFor(0, curve_.batch_, group_.least); }

 private:
  double Rate(std::size_t k) const {
    return static_cast<double>(prices_[k]) / static_cast<double>(most_[k]);
  }
  // What `need` more images and `devices` more devices cost at least, from the
  // i-th kind on. The factor makes up for rounding.
  double LeastFor(std::size_t i, std::int64_t need,
                  std::int64_t devices) const {
    if (i == order_.size()) return 0;
    double least = 0;
    if (need > 0) least = static_cast<double>(need) * Rate(order_.back());
    if (devices > 0) {
      least = std::max(least, static_cast<double>(devices) *
                                  static_cast<double>(cheapest_from_[i]));
    }
    return least * (1 - 1e-9);
  }

  // Returns whether the devices so far suffice, so that more are needless.
  bool Visit(std::size_t i, std::int64_t devices, std::int64_t need,
             std::int64_t cost, bool changed) {
    if (++steps_ > kMostSteps || choices_.size() > limit_) {
      complete_ = false;
      return true;
    }
    if (cost > cap_) return false;
    if (changed && need <= 0 && devices >= group_.least &&
        curve_.HoldsAt(counts_, time_)) {
      Found(cost);
      return true;
    }
    const std::int64_t free = group_.most - devices;
    if (i == order_.size() || free == 0) return false;
    const std::int64_t missing =
        std::max<std::int64_t>(group_.least - devices, 0);
    if (devices_from_[i] < missing) return false;
    if (need > 0 && (batch_from_[i] < need || largest_from_[i] * free < need)) {
      return false;
    }
    if (static_cast<double>(cost) + LeastFor(i, need, missing) >
        static_cast<double>(cap_)) {
      return false;
    }
    const std::size_t k = order_[i];
    const std::int64_t most = std::min(free, curve_.free_[k]);
    // The last kind has to provide whatever is missing.
    std::int64_t first = 0;
    if (i + 1 == order_.size()) {
      first = missing;
      if (need > 0) first = std::max(first, (need + most_[k] - 1) / most_[k]);
      first = std::max<std::int64_t>(first, 1);
    }
    for (std::int64_t n = first; n <= most; ++n) {
      counts_[k] = static_cast<std::int16_t>(n);
      const std::int64_t total = cost + n * prices_[k];
      if (total > cap_) break;
      const bool enough =
          Visit(i + 1, devices + n, need - n * most_[k], total, n > 0);
      if (enough && n > 0) break;
      if (!complete_) break;
    }
    counts_[k] = 0;
    return false;
  }

  void Found(std::int64_t cost) {
    if (keep_one_) {
      choices_.assign(1, {counts_, cost});
      cap_ = cost - 1;
      return;
    }
    // One device less may do as well; the walk meets that elsewhere.
    const std::int64_t limit = curve_.times_[time_] + group_.extra;
    for (const std::size_t k : order_) {
      if (counts_[k] == 0) continue;
      Counts fewer = counts_;
      --fewer[k];
      if (curve_.Holds(fewer, limit)) return;
    }
    choices_.push_back({counts_, cost});
  }

  const Curve& curve_;
  const Curve::Group& group_;
  std::size_t time_;
  const Prices& prices_;
  std::span<const std::int64_t> most_;
  std::vector<std::size_t> order_;
  std::vector<std::int64_t> devices_from_;
  std::vector<std::int64_t> batch_from_;
  std::vector<std::int64_t> largest_from_;
  std::vector<std::int64_t> cheapest_from_;
  Counts counts_{};
  std::int64_t cap_ = 0;
  std::size_t limit_ = std::numeric_limits<std::size_t>::max();
  bool keep_one_ = false;
  bool complete_ = true;
  std::int64_t steps_ = 0;
  std::vector<Choice> choices_;
};

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
  std::sort(times_.begin(), times_.end());
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
  return static_cast<std::size_t>(
      std::upper_bound(times_.begin(), times_.end(), time) - times_.begin());
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
  std::size_t low = 0;
  std::size_t high = times_.size() - 1;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (HoldsAt(counts, middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return times_[low] + group->extra;
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

Curve::Cheapest Curve::CheapestOfGroup(const Group& group, std::size_t time,
                                       const Prices& prices,
                                       std::int64_t below) const {
  Walk walk(*this, group, time, prices);
  Cheapest cheapest;
  cheapest.choice = walk.FindCheapest(below);
  if (walk.complete()) {
    cheapest.bound =
        cheapest.choice.has_value() ? cheapest.choice->cost : below;
    cheapest.none = !cheapest.choice.has_value() && below == kMaxCount;
  } else {
    cheapest.bound = std::min(
        below, static_cast<std::int64_t>(std::max(walk.LeastCost(), 0.0)));
  }
  return cheapest;
}

Curve::Cheapest Curve::CheapestWithin(std::int64_t time, const Prices& prices,
                                      std::int64_t below) const {
  Cheapest best;
  best.bound = below;
  best.none = true;
  for (const Group& group : groups_) {
    const std::size_t within = Within(time - group.extra);
    if (within == 0) continue;
    const std::int64_t limit =
        best.choice.has_value() ? best.choice->cost : below;
    const Cheapest one = CheapestOfGroup(group, within - 1, prices, limit);
    best.none = best.none && one.none;
    best.bound = std::min(best.bound, one.bound);
    if (one.choice.has_value()) best.choice = one.choice;
  }
  if (best.choice.has_value()) best.none = false;
  return best;
}

bool Curve::AddChoicesOfGroup(const Group& group, std::size_t time,
                              const Prices& prices, std::int64_t most,
                              std::size_t limit,
                              std::vector<Choice>* choices) const {
  Walk walk(*this, group, time, prices);
  walk.FindAll(most, limit, choices);
  return walk.complete();
}

bool Curve::AddChoices(std::int64_t time, const Prices& prices,
                       std::int64_t most, std::size_t limit,
                       std::vector<Choice>* choices) const {
  bool complete = true;
  for (const Group& group : groups_) {
    const std::size_t within = Within(time - group.extra);
    if (within == 0) continue;
    complete =
        AddChoicesOfGroup(group, within - 1, prices, most, limit, choices) &&
        complete;
  }
  return complete;
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
