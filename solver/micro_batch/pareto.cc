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
};

// The optimum of every batch size under a rising limit.
class Optimum {
 public:
  explicit Optimum(std::size_t batch)
      : cost_(batch + 1, kUnreached), count_(batch + 1, 0) {
    cost_[0] = 0;
  }

  // Admits micro-batches of size `p` that cost `cost`. kCounts: equal costs are
  // decided by the number of micro-batches.
  template <bool kCounts>
  void Admit(std::size_t p, std::uint64_t cost) {
    if (cost > cost_[p] || (cost == cost_[p] && (!kCounts || count_[p] <= 1))) {
      return;
    }
    const std::size_t size = cost_.size();
    for (std::size_t b = p; b < size; ++b) {
      const std::uint64_t total = cost_[b - p] + cost;
      if (total < cost_[b]) {
        cost_[b] = total;
        if constexpr (kCounts) count_[b] = count_[b - p] + 1;
      } else if constexpr (kCounts) {
        if (total == cost_[b]) {
          count_[b] = std::min(count_[b], count_[b - p] + 1);
        }
      }
    }
  }

  std::uint64_t cost() const { return cost_.back(); }
  std::int32_t count() const { return count_.back(); }

 private:
  std::vector<std::uint64_t> cost_;
  std::vector<std::int32_t> count_;
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
                       static_cast<std::uint64_t>(point.spread.count())});
    }
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return std::tie(a.workspace, a.batch, a.time, a.spread) <
           std::tie(b.workspace, b.batch, b.time, b.spread);
  });
  return items;
}

// For measurements without spread: T(B) as the limit rises.
std::vector<FrontPoint> SweepQuiet(const std::vector<Item>& items,
                                   std::size_t batch) {
  std::vector<FrontPoint> front;
  Optimum optimum(batch);
  std::uint64_t last = kUnreached;
  for (std::size_t i = 0; i < items.size(); ++i) {
    optimum.Admit<false>(items[i].batch, items[i].time);
    const bool level_ends =
        i + 1 == items.size() || items[i + 1].workspace != items[i].workspace;
    if (!level_ends || optimum.cost() >= last) continue;
    last = optimum.cost();
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
  Optimum fastest(batch);
  Optimum cautious(batch);
  std::tuple<std::uint64_t, std::uint64_t> whole = {kUnreached, 0};
  std::vector<Bytes> levels;
  const auto state = [&] {
    return std::tuple(fastest.cost(), fastest.count(), cautious.cost(),
                      cautious.count(), whole);
  };
  auto last = state();
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    fastest.Admit<true>(item.batch, item.time);
    cautious.Admit<true>(item.batch,
                         std::min(item.time + item.spread, kUnreached));
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

std::optional<std::size_t> ParetoFront::FastestWithin(Bytes limit) const {
  const auto beyond = std::upper_bound(
      points_.begin(), points_.end(), limit,
      [](Bytes value, const FrontPoint& p) { return value < p.workspace; });
  if (beyond == points_.begin()) return std::nullopt;
  return static_cast<std::size_t>(beyond - points_.begin()) - 1;
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
  const bool noisy =
      std::any_of(items.begin(), items.end(),
                  [](const Item& item) { return item.spread > 0; });
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
  if constexpr (kSolversCheckThemselves) {
    RequireValid(ValidateFront(front, points, request, kWitnesses));
  }
  return front;
}

}  // namespace ucudnn
