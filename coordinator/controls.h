#ifndef UCUDNN_COORDINATOR_CONTROLS_H_
#define UCUDNN_COORDINATOR_CONTROLS_H_

// Devices of a kind share its measurements, so they ought to be alike. A few
// control points, cheap ones of each precision and operation, are measured by
// every device of a kind; where one device takes longer or shorter than the
// others by more than noise explains, it deviates. Pure functions.
//
// The rule. Only what was measured under one driver is compared. At each point
// a device's time is the least of its rounds: what disturbs a measurement makes
// it longer. It is held against the lower median of all devices (of two, the
// faster: a device cannot be faster than its kind can be), and differs if it is
// off by more than 5 % and by more than three times the sum of both spreads. A
// device is suspected if it differs the same way at more than half of a
// precision's points, of at least three. Then every device of the kind measures
// all points twice more, at other moments, and the device deviates if that
// still holds. A day later it is looked at again.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/profile.h"
#include "base/result.h"
#include "coordinator/store/records.h"

namespace ucudnn {

inline constexpr std::int64_t kControlRounds = 3;
inline constexpr std::size_t kLeastControlPoints = 3;
inline constexpr double kControlTolerance = 0.05;
inline constexpr UnixMillis kControlAgeMs = 24LL * 60 * 60 * 1000;

// The point of those just measured of `problem` that every device of the kind
// shall measure too: the one with the least time for each image, if it is
// settled and cheap. None if there are enough like it.
std::optional<ControlRecord> ChooseControl(
    const std::string& kind, const std::string& problem,
    std::span<const MeasuredPoint> points,
    std::span<const ControlRecord> known);

// What a device is to measure next, in order.
struct DueControl {
  ControlRecord point;
  std::int64_t round = 1;
};
std::vector<DueControl> DueControls(const KindControls& controls,
                                    const std::string& device,
                                    const std::string& driver,
                                    UnixMillis now_ms);

// A device beside the others of its kind, in the precision in which it differs
// most.
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

// By id; devices that share no control point with another one are left out.
std::vector<DeviceComparison> CompareDevices(const KindControls& controls);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_CONTROLS_H_
