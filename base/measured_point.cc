#include "base/measured_point.h"

#include <array>
#include <limits>

#include "base/accuracy.h"

namespace ucudnn {
namespace {

template <Nanoseconds MeasuredPoint::*member>
constexpr PointNumber Time(std::string_view name, int field) {
  return {name, field, kMaxCount,
          [](const MeasuredPoint& point) -> std::int64_t {
            return (point.*member).count();
          },
          [](MeasuredPoint& point, std::int64_t value) {
            point.*member = Nanoseconds(value);
          }};
}

template <int MeasuredPoint::*member>
constexpr PointNumber Count(std::string_view name, int field) {
  return {
      name, field, std::numeric_limits<std::int32_t>::max(),
      [](const MeasuredPoint& point) -> std::int64_t { return point.*member; },
      [](MeasuredPoint& point, std::int64_t value) {
        point.*member = static_cast<int>(value);
      }};
}

constexpr std::string_view kTwoBranches = "2x";

constexpr std::array kNumbers = {
    Time<&MeasuredPoint::time>("time_ns", 6),
    Time<&MeasuredPoint::spread>("spread_ns", 7),
    Count<&MeasuredPoint::repeats>("repeats", 8),
    Time<&MeasuredPoint::min>("min_ns", 9),
    Time<&MeasuredPoint::p90>("p90_ns", 10),
    Time<&MeasuredPoint::enqueue>("enqueue_ns", 15),
    Count<&MeasuredPoint::outliers>("outliers", 17),
    Time<&MeasuredPoint::adding>("adding_ns", 18),
    PointNumber{
        "error_ppt", 19, kUselessPpt,
        [](const MeasuredPoint& point) { return point.error_ppt; },
        [](MeasuredPoint& point, std::int64_t ppt) { point.error_ppt = ppt; }},
};

Status CheckIdentity(const MeasuredPoint& point) {
  UCUDNN_RETURN_IF_ERROR(
      InRange("batch", point.batch.count(), 1, kMaxBatchSize.count()));
  UCUDNN_RETURN_IF_ERROR(
      InRange("workspace_bytes", point.workspace.count(), 0, kMaxCount));
  if (!point.algorithm.name.empty()) return {};
  return Fail(Code::kInvalidArgument, "algorithm is empty; a name is accepted");
}

}  // namespace

Algorithm InTwoBranches(const Algorithm& each) {
  return {std::string(kTwoBranches) + each.name, each.math, each.precision};
}

std::optional<Algorithm> EachBranch(const Algorithm& algorithm) {
  if (!algorithm.name.starts_with(kTwoBranches)) return std::nullopt;
  return Algorithm{algorithm.name.substr(kTwoBranches.size()), algorithm.math,
                   algorithm.precision};
}

Nanoseconds AddingTime(const MeasuredPoint& point) {
  return point.adding == Nanoseconds(0) ? point.time : point.adding;
}

std::span<const PointNumber> PointNumbers() { return kNumbers; }

Status SetNumber(const PointNumber& number, std::int64_t value,
                 MeasuredPoint* point) {
  UCUDNN_RETURN_IF_ERROR(InRange(number.name, value, 0, number.max));
  number.set(*point, value);
  return {};
}

Status CheckPoint(const MeasuredPoint& point) {
  UCUDNN_RETURN_IF_ERROR(CheckIdentity(point));
  for (const PointNumber& number : PointNumbers()) {
    UCUDNN_RETURN_IF_ERROR(
        InRange(number.name, number.get(point), 0, number.max));
  }
  return {};
}

Result<MeasuredPoint> MakePoint(std::int64_t batch, std::string_view algorithm,
                                std::string_view math,
                                std::string_view precision,
                                std::int64_t workspace_bytes) {
  MeasuredPoint point;
  point.batch = BatchSize(batch);
  point.algorithm.name = algorithm;
  point.algorithm.math = math;
  UCUDNN_ASSIGN_OR_RETURN(point.algorithm.precision, ParsePrecision(precision));
  point.workspace = Bytes(workspace_bytes);
  UCUDNN_RETURN_IF_ERROR(CheckIdentity(point));
  return point;
}

}  // namespace ucudnn
