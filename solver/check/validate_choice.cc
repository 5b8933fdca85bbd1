#include "solver/check/validate_choice.h"

#include <algorithm>
#include <vector>

#include "solver/check/validate.h"

namespace ucudnn {
namespace {

Status CheckShape(std::span<const FrontPoint> front, Bytes limit) {
  if (front.empty()) return Wrong("the front is empty");
  for (std::size_t i = 0; i < front.size(); ++i) {
    if (front[i].time < Nanoseconds(0) || front[i].workspace < Bytes(0) ||
        front[i].workspace > limit) {
      return Wrong("point {} takes {} ns with {} bytes; the limit is {}", i,
                   front[i].time.count(), front[i].workspace.count(),
                   limit.count());
    }
    if (i > 0 && (front[i].workspace <= front[i - 1].workspace ||
                  front[i].time >= front[i - 1].time)) {
      return Wrong("point {} does not rise and fall", i);
    }
  }
  return {};
}

}  // namespace

Status ValidateFront(const ParetoFront& front,
                     std::span<const MeasuredPoint> points,
                     const WrRequest& request, std::size_t witnesses) {
  const std::vector<FrontPoint>& found = front.points();
  UCUDNN_RETURN_IF_ERROR(CheckShape(found, request.workspace_limit));
  for (const MeasuredPoint& point : points) {
    if (point.batch != request.batch ||
        point.workspace > request.workspace_limit) {
      continue;
    }
    const bool reached = std::ranges::any_of(found, [&](const FrontPoint& p) {
      return p.workspace <= point.workspace && p.time <= point.time;
    });
    if (!reached) {
      return Wrong(
          "{} undivided takes {} ns with {} bytes, which no point "
          "reaches",
          point.algorithm.name, point.time.count(), point.workspace.count());
    }
  }
  const std::size_t looked_at = std::min(witnesses, found.size());
  for (std::size_t w = 0; w < looked_at; ++w) {
    const std::size_t i =
        looked_at == 1 ? 0 : w * (found.size() - 1) / (looked_at - 1);
    const std::vector<MicroBatch> micro_batches = front.PlanAt(i);
    Status status =
        ValidateMicroBatches(micro_batches, found[i].time, found[i].workspace,
                             points, request.batch, request.policy);
    if (!status) {
      return Within(fmt::format("point {}", i), std::move(status).error());
    }
  }
  return {};
}

Status ValidateDivision(const Division& division,
                        std::span<const std::span<const FrontPoint>> fronts,
                        Bytes limit) {
  if (division.point.size() != fronts.size()) {
    return Wrong("{} points are chosen of {} fronts", division.point.size(),
                 fronts.size());
  }
  Nanoseconds time{0};
  Bytes workspace;
  for (std::size_t k = 0; k < fronts.size(); ++k) {
    if (division.point[k] >= fronts[k].size()) {
      return Wrong("front {} has no point {}", k, division.point[k]);
    }
    time += fronts[k][division.point[k]].time;
    workspace += fronts[k][division.point[k]].workspace;
  }
  if (time != division.time || workspace != division.workspace) {
    return Wrong("the points take {} ns with {} bytes, not {} ns with {}",
                 time.count(), workspace.count(), division.time.count(),
                 division.workspace.count());
  }
  if (workspace > limit) {
    return Wrong("{} bytes in all exceed the limit of {}", workspace.count(),
                 limit.count());
  }
  if (division.lower_bound > time ||
      division.optimal != (division.lower_bound == time)) {
    return Wrong("'optimal' is {}, bound {} ns, time {} ns", division.optimal,
                 division.lower_bound.count(), time.count());
  }
  return {};
}

Status ValidateMckp(const MckpSolution& solution,
                    std::span<const MckpClass> classes, std::int64_t capacity) {
  std::int64_t cost = 0;
  std::int64_t weight = 0;
  std::size_t copies = 0;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    for (std::int64_t i = 0; i < classes[k].count; ++i, ++copies) {
      if (copies >= solution.choice.size()) {
        return Wrong("class {} has no choice for copy {}", k, i);
      }
      const std::uint32_t item = solution.choice[copies];
      if (item >= classes[k].items.size()) {
        return Wrong("class {} has no item {}", k, item);
      }
      cost += classes[k].items[item].cost;
      weight += classes[k].items[item].weight;
    }
  }
  if (copies != solution.choice.size()) {
    return Wrong("{} items are chosen for {} copies", solution.choice.size(),
                 copies);
  }
  if (cost != solution.cost || weight != solution.weight) {
    return Wrong("the items cost {} and weigh {}, not {} and {}", cost, weight,
                 solution.cost, solution.weight);
  }
  if (weight > capacity) {
    return Wrong("a weight of {} exceeds the capacity of {}", weight, capacity);
  }
  if (solution.lower_bound > cost ||
      solution.optimal != (solution.lower_bound == cost)) {
    return Wrong("'optimal' is {}, bound {}, cost {}", solution.optimal,
                 solution.lower_bound, cost);
  }
  if (!solution.optimal) return {};
  copies = 0;
  for (std::size_t k = 0; k < classes.size(); ++k) {
    for (std::int64_t i = 0; i < classes[k].count; ++i, ++copies) {
      const MckpItem& taken = classes[k].items[solution.choice[copies]];
      for (const MckpItem& other : classes[k].items) {
        if (other.cost < taken.cost &&
            other.weight <= taken.weight + (capacity - weight)) {
          return Wrong("copy {} of class {} costs {}; {} would fit too", i, k,
                       taken.cost, other.cost);
        }
      }
    }
  }
  return {};
}

}  // namespace ucudnn
