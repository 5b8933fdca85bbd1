#include "coordinator/measuring/measured_batch.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "proto/convert.h"
#include "ucudnn/v1/types.pb.h"

namespace ucudnn {
namespace {

auto PointKey(const PointRef& ref) {
  return std::tie(ref.point->algorithm, ref.point->workspace);
}

std::vector<PointRef> Newest(std::span<const PointRef> points) {
  std::vector<PointRef> sorted(points.begin(), points.end());
  std::ranges::stable_sort(sorted, {}, PointKey);
  std::vector<PointRef> newest;
  newest.reserve(sorted.size());
  for (const PointRef& ref : sorted) {
    if (!newest.empty() && PointKey(newest.back()) == PointKey(ref)) {
      newest.back() = ref;
    } else {
      newest.push_back(ref);
    }
  }
  return newest;
}

}  // namespace

PackedBatch Pack(std::span<const PointRef> points) {
  PackedBatch packed;
  v1::StoredBatch batch;
  // One for each message of the batch; there are few.
  std::vector<const PointOrigin*> origins;
  std::vector<std::string_view> drivers;
  for (const PointRef& ref : Newest(points)) {
    const PointOrigin& origin = *ref.origin;
    const auto known = std::ranges::find_if(origins, [&](const auto* other) {
      return other == ref.origin || *other == origin;
    });
    const auto index = static_cast<int>(known - origins.begin());
    const bool is_new = known == origins.end();
    if (is_new) {
      origins.push_back(ref.origin);
      batch.add_points();
      packed.measured_ms = std::max(packed.measured_ms, origin.measured_ms);
      if (std::ranges::find(drivers, origin.driver) == drivers.end()) {
        drivers.push_back(origin.driver);
      }
    }
    *batch.mutable_points(index)->add_measurements() =
        is_new ? ToProto(*ref.point, origin) : ToProto(*ref.point);
    ++packed.points;
  }
  packed.drivers = std::ssize(drivers);
  if (!drivers.empty()) packed.driver = drivers.front();
  batch.SerializeToString(&packed.body);
  return packed;
}

Result<std::vector<StoredPoints>> Unpack(const std::string& body) {
  v1::StoredBatch batch;
  if (!batch.ParseFromString(body)) {
    return Fail(Code::kDataLoss, "a measured batch is no StoredBatch");
  }
  std::vector<StoredPoints> unpacked;
  for (const v1::StoredPoints& stored : batch.points()) {
    StoredPoints& points = unpacked.emplace_back();
    if (stored.measurements().empty()) {
      return Fail(Code::kDataLoss,
                  "a measured batch has an origin without points");
    }
    points.origin = OriginOf(stored.measurements(0));
    for (const v1::Measurement& measurement : stored.measurements()) {
      auto point = FromProto(measurement);
      if (!point) return Fail(Code::kDataLoss, "{}", point.error().message);
      points.points.push_back(*std::move(point));
    }
  }
  return unpacked;
}

}  // namespace ucudnn
