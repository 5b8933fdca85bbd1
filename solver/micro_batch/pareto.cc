#include "solver/micro_batch/pareto.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "solver/check/validate.h"
#include "solver/check/validate_choice.h"

namespace ucudnn {
namespace {

// The number of a front's points that debug builds check closely.
constexpr std::size_t kWitnesses = 3;

constexpr std::uint64_t kUnreached = std::uint64_t{kMaxCount} + 1;

// A micro-configuration that may matter.
struct Item {
  std::int64_t workspace;
  std::uint64_t time;
  std::size_t batch;
  std::uint64_t spread;
  std::uint64_t adding;
};

// The optimum of the mini-batch under a rising limit. kCounts: of equal costs
// that of fewest micro-batches.
template <bool kCounts>
class Optimum {
 public:
  explicit Optimum(std::size_t batch)
      : writing_(batch + 1, kUnreached),
        cost_(batch + 1, kUnreached),
        count_(batch + 1, 0) {
    cost_[0] = 0;
  }

  // Admits micro-batches of size `p`.
  void Admit(std::size_t p, std::uint64_t writing, std::uint64_t adding) {
    if (writing < writing_[p]) {
      writing_[p] = writing;
      changed_ = true;
    }
    if (adding > cost_[p] ||
        (adding == cost_[p] && (!kCounts || count_[p] <= 1))) {
      return;
    }
    changed_ = true;
    for (std::size_t b = p; b < cost_.size(); ++b) {
      Improve(cost_[b - p] + adding, count_[b - p] + 1, &cost_[b], &count_[b]);
    }
  }

  // The cost, and if kCounts the number of micro-batches. O(batch) after a
  // change.
  std::pair<std::uint64_t, std::int32_t> Best() {
    if (!std::exchange(changed_, false)) return best_;
    best_ = {kUnreached, 0};
    for (std::size_t p = 1; p < writing_.size(); ++p) {
      if (writing_[p] == kUnreached) continue;
      const std::size_t rest = writing_.size() - 1 - p;
      Improve(cost_[rest] + writing_[p], count_[rest] + 1, &best_.first,
              &best_.second);
    }
    return best_;
  }

 private:
  static void Improve(std::uint64_t total, std::int32_t parts,
                      std::uint64_t* cost, std::int32_t* count) {
    if (total < *cost) {
      *cost = total;
      if constexpr (kCounts) *count = parts;
    } else if constexpr (kCounts) {
      if (total == *cost) *count = std::min(*count, parts);
    }
  }

  std::vector<std::uint64_t> writing_;  // the cost of each first micro-batch
  // Of the other micro-batches, by how many images they are.
  std::vector<std::uint64_t> cost_;
  std::vector<std::int32_t> count_;
  bool changed_ = false;
  std::pair<std::uint64_t, std::int32_t> best_ = {kUnreached, 0};
};

// By workspace, then size and time.
std::vector<Item> ItemsOf(std::span<const MeasuredPoint> points,
                          const WrRequest& request) {
  std::vector<Item> items;
  items.reserve(points.size());
  for (const MeasuredPoint& point : points) {
    if (point.workspace <= request.workspace_limit &&
        PolicyAdmits(request.policy, point.batch, request.batch)) {
      items.push_back({point.workspace.count(),
                       static_cast<std::uint64_t>(point.time.count()),
                       static_cast<std::size_t>(point.batch.count()),
                       static_cast<std::uint64_t>(point.spread.count()),
                       static_cast<std::uint64_t>(AddingTime(point).count())});
    }
  }
  std::ranges::sort(items, [](const Item& a, const Item& b) {
    return std::tie(a.workspace, a.batch, a.time, a.spread, a.adding) <
           std::tie(b.workspace, b.batch, b.time, b.spread, b.adding);
  });
  return items;
}

// For measurements without spread: T(B) as the limit rises.
std::vector<FrontPoint> SweepQuiet(const std::vector<Item>& items,
                                   std::size_t batch) {
  std::vector<FrontPoint> front;
  Optimum</*kCounts=*/false> optimum(batch);
  std::uint64_t last = kUnreached;
  for (std::size_t i = 0; i < items.size(); ++i) {
    optimum.Admit(items[i].batch, items[i].time, items[i].adding);
    const bool level_ends =
        i + 1 == items.size() || items[i + 1].workspace != items[i].workspace;
    if (!level_ends || optimum.Best().first >= last) continue;
    last = optimum.Best().first;
    front.push_back({Nanoseconds(static_cast<std::int64_t>(last)),
                     Bytes(items[i].workspace)});
  }
  return front;
}

// The limits at which the rule for noisy measurements may change its decision:
// where the fastest division, the most reliable one or the fastest undivided
// execution changes.
std::vector<Bytes> NoisyLevels(const std::vector<Item>& items,
                               std::size_t batch) {
  Optimum</*kCounts=*/true> fastest(batch);
  Optimum</*kCounts=*/true> cautious(batch);
  std::tuple<std::uint64_t, std::uint64_t> whole = {kUnreached, 0};
  std::vector<Bytes> levels;
  const auto state = [&] {
    return std::tuple(fastest.Best(), cautious.Best(), whole);
  };
  auto last = state();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    const auto with_spread = [&item](std::uint64_t time) {
      return std::min(time + item.spread, kUnreached);
    };
    fastest.Admit(item.batch, item.time, item.adding);
    cautious.Admit(item.batch, with_spread(item.time),
                   with_spread(item.adding));
    if (item.batch == batch && item.time < std::get<0>(whole)) {
      whole = {item.time, item.spread};
    }
    if ((i + 1 == items.size() || items[i + 1].workspace != item.workspace) &&
        state() != last) {
      last = state();
      levels.emplace_back(item.workspace);
    }
  }
  return levels;
}

}  // namespace

std::optional<std::size_t> FastestWithin(std::span<const FrontPoint> front,
                                         Bytes limit) {
  const auto beyond =
      std::ranges::upper_bound(front, limit, {}, &FrontPoint::workspace);
  if (beyond == front.begin()) return std::nullopt;
  return static_cast<std::size_t>(beyond - front.begin()) - 1;
}

std::vector<MicroBatch> ParetoFront::PlanAt(std::size_t i) const {
  const auto curve = SolveWrCurve(measured_, batch_, LimitOf(i), policy_);
  UCUDNN_CHECK(curve.has_value() && curve->TimeAt(batch_) == points_[i].time);
  return curve->PlanAt(batch_);
}

Bytes ParetoFront::LimitOf(std::size_t i) const {
  return limits_.empty() ? points_[i].workspace : limits_[i];
}

void ParetoFront::Add(std::optional<Nanoseconds> time,
                      std::optional<Bytes> workspace, Bytes limit) {
  if (!time.has_value()) return;
  if (!points_.empty() && points_.back().time <= *time) return;
  while (!points_.empty() && points_.back().workspace >= *workspace) {
    points_.pop_back();
    limits_.pop_back();
  }
  points_.push_back({*time, *workspace});
  limits_.push_back(limit);
}

Result<ParetoFront> SolvePareto(std::span<const MeasuredPoint> points,
                                const WrRequest& request) {
  UCUDNN_RETURN_IF_ERROR(
      CheckWrArguments(points, request.batch, request.workspace_limit));
  ParetoFront front;
  front.measured_ = points;
  front.batch_ = request.batch;
  front.policy_ = request.policy;
  const std::vector<Item> items = ItemsOf(points, request);
  const auto batch = static_cast<std::size_t>(request.batch.count());
  const bool noisy = std::ranges::any_of(
      items, [](const Item& item) { return item.spread > 0; });
  if (!noisy) {
    front.points_ = SweepQuiet(items, batch);
  } else {
    for (const Bytes level : NoisyLevels(items, batch)) {
      UCUDNN_ASSIGN_OR_RETURN(
          const WrCurve curve,
          SolveWrCurve(points, request.batch, level, request.policy));
      front.Add(curve.TimeAt(request.batch), curve.WorkspaceAt(request.batch),
                level);
    }
  }
  if (front.points_.empty()) {
    return tl::unexpected<Error>(WhyNoWrPlan(points, request));
  }
  if (kSolversCheckThemselves)
    RequireValid(ValidateFront(front, points, request, kWitnesses));
  return front;
}

}  // namespace ucudnn
