#include "solver/micro_batch/host_time.h"

#include <algorithm>
#include <cstdint>

namespace ucudnn {
namespace {

constexpr Nanoseconds kLongest{kMaxCount};

Nanoseconds PacedTime(const MeasuredPoint& point) {
  return std::max(point.time, point.enqueue);
}

void AddToSpread(Nanoseconds more, MeasuredPoint* point) {
  if (more <= Nanoseconds(0)) return;
  point->spread = more <= kLongest && point->spread <= kLongest - more
                      ? point->spread + more
                      : std::max(point->spread, kLongest);
}

}  // namespace

std::vector<MeasuredPoint> CountHostTime(std::span<const MeasuredPoint> points,
                                         BatchSize batch, Bytes limit) {
  const auto is_beaten = [&](const MeasuredPoint& point) {
    return std::ranges::any_of(points, [&](const MeasuredPoint& other) {
      return other.batch == batch &&
             other.workspace <= std::max(point.workspace, limit) &&
             PacedTime(other) < PacedTime(point);
    });
  };
  std::vector<MeasuredPoint> counted;
  counted.reserve(points.size());
  for (const MeasuredPoint& point : points) {
    if (point.batch == batch && is_beaten(point)) continue;
    counted.push_back(point);
    if (point.time >= Nanoseconds(0)) {  // SolveWr says what is wrong
      AddToSpread(point.enqueue - std::min(point.time, AddingTime(point)),
                  &counted.back());
    }
  }
  return counted;
}

}  // namespace ucudnn
