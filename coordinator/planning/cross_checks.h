#ifndef UCUDNN_COORDINATOR_PLANNING_CROSS_CHECKS_H_
#define UCUDNN_COORDINATOR_PLANNING_CROSS_CHECKS_H_

// Devices of one kind share its measurements, so they must perform alike.
// Cross-checks test that: every device of the kind measures the same few cheap
// points of each precision and operation. A device deviates if its times differ
// from the others' by more than noise explains. Pure functions.
//
// Only measurements under the same driver are compared. A device's time at a
// point is the minimum of its rounds, because disturbances only make a
// measurement longer. The reference is the lower median of all devices (of two,
// the faster: no device can be faster than its kind). A device differs at a
// point if it is off by more than 5 % and by more than three times the sum of
// both spreads. It is suspected if, of at least three points of one precision,
// more than half differ in the same direction. Every device of the kind then
// measures all points two more times, and the device deviates if the suspicion
// holds. The checks are repeated after a day.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/profile.h"
#include "base/result.h"
#include "coordinator/store/unix_millis.h"

namespace ucudnn {

inline constexpr std::int64_t kCrossCheckRounds = 3;
inline constexpr std::size_t kMinCrossChecks = 3;
// Of a kind, for each operation and precision.
inline constexpr std::ptrdiff_t kCrossChecksPerOp = 3;
inline constexpr double kCrossCheckTolerance = 0.05;
inline constexpr UnixMillis kCrossCheckAgeMs = 24LL * 60 * 60 * 1000;

// A point that every device of a kind measures, so that devices can be
// compared. Unique by kind, problem and batch.
struct CrossCheck {
  std::int64_t id = 0;  // assigned by the store
  std::string kind;
  std::string problem;
  BatchSize batch;
  Algorithm algorithm = {};
  Bytes workspace = {};

  friend bool operator==(const CrossCheck&, const CrossCheck&) = default;
};

// What one device measured of a cross-check in one round.
struct CrossCheckMeasurement {
  std::int64_t check = 0;  // CrossCheck::id
  std::string device;
  std::int64_t round = 1;
  std::string driver;
  Nanoseconds time{0};  // 0: the device could not measure it
  Nanoseconds spread{0};
  std::string throttle = {};
  UnixMillis measured_ms = 0;
  // Grows with each measurement that the database takes in; assigned by it.
  std::int64_t sequence = 0;

  friend bool operator==(const CrossCheckMeasurement&,
                         const CrossCheckMeasurement&) = default;
};

// What a problem is of: an operation, or tasks other than convolutions, in a
// precision. Devices are compared by as many points of each.
struct CheckedWork {
  std::optional<ConvOp> op;
  Precision precision = Precision::kFp32;

  friend auto operator<=>(const CheckedWork&, const CheckedWork&) = default;
};
// Absent if it is no problem.
std::optional<CheckedWork> WorkOf(const std::string& problem);

struct KindCrossChecks {
  std::vector<CrossCheck> points;                   // by id
  std::vector<CrossCheckMeasurement> measurements;  // by check, device, round
};

// Chooses a cross-check among the points just measured of `problem`: the one
// with the least time per image, of tasks other than convolutions with the
// most, of those that are cheap and were repeated often enough. None if the
// kind has enough cross-checks of this precision and operation.
std::optional<CrossCheck> ChooseCrossCheck(
    const std::string& kind, const std::string& problem,
    std::span<const MeasuredPoint> points, std::span<const CrossCheck> known);

// Of the cross-checks `points` of its kind, those that a device which measured
// `own` has to measure next under this driver, in order. `suspicion`: whether a
// device of the kind is suspected.
struct DueCrossCheck {
  CrossCheck point;
  std::int64_t round = 1;
};
std::vector<DueCrossCheck> DueCrossChecks(
    std::span<const CrossCheck> points,
    std::span<const CrossCheckMeasurement> own, const std::string& driver,
    bool suspicion, UnixMillis now_ms);

// A device compared with the others of its kind, in the precision in which it
// differs most.
struct DeviceComparison {
  std::string device;
  Precision precision = Precision::kFp32;
  double relative_time = 1;  // the median over the points
  std::int64_t points = 0;
  bool suspected = false;
  bool deviates = false;
  std::string text;  // "takes 23 % longer than others of its kind ..."

  friend bool operator==(const DeviceComparison&,
                         const DeviceComparison&) = default;
};

// Ordered by device id, without devices that share no cross-check with another.
std::vector<DeviceComparison> CompareDevices(const KindCrossChecks& checks);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANNING_CROSS_CHECKS_H_
