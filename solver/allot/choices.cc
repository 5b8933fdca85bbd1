// The choices of a job: a walk through its numbers of devices. Symbols:
// docs/solver.md.
//
// Devices suffice within time t if sum n_k a_k >= B and the excess can be taken
// back exactly (curve.h). The walk fixes n_k for one kind after another, those
// that cost the most for an image first. A job of B = 12 images, with two kinds
// (curve_test.cc has the same numbers):
//
//   kind   free   a   p   p/a       cap = 17
//    1       3    4   5   1.25
//    2       4    2   2   1
//
// `need` is what is left of B. It costs at least need times the least price for
// an image, here 1, so a branch ends where the sum exceeds cap:
//
//   n_1 = 0      need 12, cost  0 + 12 <= 17, but 4 of kind 2 are only 8: end
//   n_1 = 1      need  8, cost  5 +  8 <= 17
//     n_2 = 4      need 0, cost 13              a choice: (1, 4)
//   n_1 = 2      need  4, cost 10 +  4 <= 17
//     n_2 = 2      need 0, cost 14              a choice: (2, 2)
//   n_1 = 3      need  0, cost 15              a choice: (3, 0)
//
// More devices than suffice are needless: after (3, 0), n_2 is not tried. The
// cheapest choice is found by the same walk if cap becomes each choice's cost
// less one. A walk for several times at once has the a_k of the longest, and
// notes with each choice the shortest time that its devices hold.

#include <algorithm>
#include <limits>

#include "solver/allot/curve.h"

namespace ucudnn::allot_internal {

// Walks through the choices of one group within the last of some times, depth
// first. Devices that hold the first of these times need no more.
class Walk {
 public:
  Walk(const Curve& curve, const Curve::Group& group, std::size_t first,
       std::size_t last, const Prices& prices,
       std::int64_t most_steps = kMostWalkSteps)
      : curve_(curve),
        group_(group),
        first_(first),
        last_(last),
        most_steps_(most_steps),
        prices_(prices),
        most_(curve.MostAt(last)) {
    for (std::size_t k = 0; k < curve.kinds_; ++k) {
      if (most_[k] > 0 && curve.free_[k] > 0) order_.push_back(k);
    }
    std::ranges::sort(order_, [&](std::size_t a, std::size_t b) {
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
  // Appends every choice that costs at most `cap` and is minimal for its time.
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
    if (++steps_ > most_steps_ || choices_.size() > limit_) {
      complete_ = false;
      return true;
    }
    if (cost > cap_) return false;
    if (changed && need <= 0 && devices >= group_.least &&
        curve_.HoldsAt(counts_, last_) && Found(cost)) {
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

  // Returns whether more devices are needless.
  bool Found(std::int64_t cost) {
    if (keep_one_) {
      choices_.assign(1, {counts_, cost});
      cap_ = cost - 1;
      return true;
    }
    const std::size_t held = curve_.FirstHeld(counts_, first_, last_);
    const std::int64_t time = curve_.times_[held];
    // One device less may do as well; the walk meets that elsewhere.
    for (const std::size_t k : order_) {
      if (counts_[k] == 0) continue;
      Counts fewer = counts_;
      --fewer[k];
      if (curve_.Holds(fewer, time + group_.extra)) return held == first_;
    }
    choices_.push_back({counts_, cost, time});
    return held == first_;
  }

  const Curve& curve_;
  const Curve::Group& group_;
  std::size_t first_;
  std::size_t last_;
  std::int64_t most_steps_;
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

Curve::Cheapest Curve::CheapestOfGroup(const Group& group, std::size_t time,
                                       const Prices& prices, std::int64_t below,
                                       std::int64_t most_steps) const {
  Walk walk(*this, group, time, time, prices, most_steps);
  Cheapest cheapest;
  cheapest.choice = walk.FindCheapest(below);
  if (walk.complete()) {
    cheapest.bound =
        cheapest.choice.has_value() ? cheapest.choice->cost : below;
  } else {
    cheapest.bound = std::min(
        below, static_cast<std::int64_t>(std::max(walk.LeastCost(), 0.0)));
  }
  return cheapest;
}

bool Curve::AddChoicesOfGroup(const Group& group, std::size_t first,
                              std::size_t last, const Prices& prices,
                              std::int64_t most, std::size_t limit,
                              std::vector<Choice>* choices) const {
  Walk walk(*this, group, first, last, prices);
  walk.FindAll(most, limit, choices);
  return walk.complete();
}

}  // namespace ucudnn::allot_internal
