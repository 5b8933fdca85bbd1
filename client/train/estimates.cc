#include "client/train/estimates.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

namespace ucudnn::train {
namespace {

// The two batches whose line goes through `batch`; the same one twice if there
// is only one. `known` is not empty and has not this batch.
std::pair<BatchSize, BatchSize> Around(const std::set<BatchSize>& known,
                                       BatchSize batch) {
  if (known.size() == 1) return {*known.begin(), *known.begin()};
  auto above = known.upper_bound(batch);
  if (above == known.begin()) ++above;
  if (above == known.end()) --above;
  return {*std::prev(above), *above};
}

// The fastest of the points at a batch, of which there are some.
const MeasuredPoint& FastestAt(const std::vector<MeasuredPoint>& points,
                               BatchSize batch) {
  const MeasuredPoint* fastest = nullptr;
  for (const MeasuredPoint& point : points) {
    if (point.batch == batch &&
        (fastest == nullptr || point.time < fastest->time)) {
      fastest = &point;
    }
  }
  return *fastest;
}

// The value at x on the line through two points, but not below 0; the first
// value, by the batch, if there is no second.
std::int64_t OnLine(BatchSize first, std::int64_t at_first, BatchSize second,
                    std::int64_t at_second, BatchSize x) {
  const auto y = static_cast<double>(at_first);
  const auto b = static_cast<double>(first.count());
  const auto at = static_cast<double>(x.count());
  const double value =
      first == second ? y * at / b
                      : y + (static_cast<double>(at_second) - y) * (at - b) /
                                static_cast<double>((second - first).count());
  return std::max<std::int64_t>(0, std::llround(value));
}

MeasuredPoint OnLine(const MeasuredPoint& low, const MeasuredPoint& high,
                     BatchSize batch) {
  MeasuredPoint estimate = low;
  estimate.batch = batch;
  estimate.time = Nanoseconds(OnLine(low.batch, low.time.count(), high.batch,
                                     high.time.count(), batch));
  estimate.workspace = Bytes(OnLine(low.batch, low.workspace.count(),
                                    high.batch, high.workspace.count(), batch));
  return estimate;
}

}  // namespace

std::set<BatchSize> MeasuredSizes(const TrainingGraph& graph) {
  std::set<BatchSize> sizes;
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kUpdate) continue;
    for (const MeasuredPoint& point : task.work.measured) {
      sizes.insert(point.batch);
    }
  }
  return sizes;
}

void EstimateTasksAt(BatchSize batch, TrainingGraph* graph) {
  for (Task& task : graph->tasks) {
    std::vector<MeasuredPoint>& points = task.work.measured;
    std::set<BatchSize> known;
    for (const MeasuredPoint& point : points) known.insert(point.batch);
    if (known.empty() || known.contains(batch) ||
        task.kind == TaskKind::kUpdate) {
      continue;
    }
    const std::pair<BatchSize, BatchSize> around = Around(known, batch);
    std::vector<MeasuredPoint> estimates;
    for (const MeasuredPoint& low : points) {
      if (low.batch != around.first) continue;
      const auto high = std::ranges::find_if(points, [&](const auto& point) {
        return point.batch == around.second && point.algorithm == low.algorithm;
      });
      if (high != points.end()) estimates.push_back(OnLine(low, *high, batch));
    }
    if (estimates.empty()) {
      estimates.push_back(OnLine(FastestAt(points, around.first),
                                 FastestAt(points, around.second), batch));
    }
    points.insert(points.end(), estimates.begin(), estimates.end());
  }
}

}  // namespace ucudnn::train
