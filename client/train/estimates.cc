#include "client/train/estimates.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace ucudnn::train {
namespace {

// Points by batch.
using Known = std::map<BatchSize, std::vector<MeasuredPoint>>;

// The two batches whose line goes through `batch`; the same one twice if there
// is only one. `known` is not empty and has not this batch.
std::pair<Known::const_iterator, Known::const_iterator> Around(
    const Known& known, BatchSize batch) {
  if (known.size() == 1) return {known.begin(), known.begin()};
  auto above = known.upper_bound(batch);
  if (above == known.begin()) ++above;
  if (above == known.end()) --above;
  return {std::prev(above), above};
}

const MeasuredPoint& FastestOf(const std::vector<MeasuredPoint>& points) {
  return *std::ranges::min_element(points, {}, &MeasuredPoint::time);
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

// Of each algorithm that both batches have; if there is none, of the fastest.
std::vector<MeasuredPoint> EstimatesAt(const Known& known, BatchSize batch) {
  const auto around = Around(known, batch);
  const std::vector<MeasuredPoint>& high = around.second->second;
  std::vector<MeasuredPoint> estimates;
  for (const MeasuredPoint& low : around.first->second) {
    const auto same =
        std::ranges::find(high, low.algorithm, &MeasuredPoint::algorithm);
    if (same != high.end()) estimates.push_back(OnLine(low, *same, batch));
  }
  if (estimates.empty()) {
    estimates.push_back(
        OnLine(FastestOf(around.first->second), FastestOf(high), batch));
  }
  return estimates;
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

void EstimateTasks(std::span<const BatchSize> batches, TrainingGraph* graph) {
  for (Task& task : graph->tasks) {
    std::vector<MeasuredPoint>& points = task.work.measured;
    if (points.empty() || task.kind == TaskKind::kUpdate) continue;
    Known known;
    for (const MeasuredPoint& point : points) {
      known[point.batch].push_back(point);
    }
    for (const BatchSize batch : batches) {
      if (known.contains(batch)) continue;
      std::vector<MeasuredPoint> estimates = EstimatesAt(known, batch);
      points.insert(points.end(), estimates.begin(), estimates.end());
      known[batch] = std::move(estimates);
    }
  }
}

}  // namespace ucudnn::train
