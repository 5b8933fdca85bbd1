#ifndef UCUDNN_BASE_MEASURED_POINT_H_
#define UCUDNN_BASE_MEASURED_POINT_H_

// One algorithm's measurement at one batch. MeasuredPoint is its only type;
// every external form (a row of CSV, a JSON object, a message) is written and
// read by iterating over PointNumbers(). To add a number: a member and a line
// of PointNumbers() here, and a field of ucudnn.v1.Measurement.

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// What runs a convolution: the algorithm as its library names it ("FFT_TILING",
// "jit_wino_4x3:avx512_core"), the math mode of its arithmetic ("FMA",
// "DEFAULT", "TENSOR_OP"; empty if there is no choice), and the precision it
// computes in, which may exceed the requested one.
struct Algorithm {
  std::string name;
  std::string math;
  Precision precision = Precision::kFp32;

  friend auto operator<=>(const Algorithm&, const Algorithm&) = default;
};

// "2xFFT": FFT in two parallel branches, each on half of the images.
Algorithm InTwoBranches(const Algorithm& each);
// What runs in each branch of such an algorithm; nullopt of any other one.
std::optional<Algorithm> EachBranch(const Algorithm& algorithm);

// One micro-configuration with its measurements.
struct MeasuredPoint {
  BatchSize batch;
  Algorithm algorithm;
  Bytes workspace;
  Nanoseconds time{0};    // median of the repeats
  Nanoseconds spread{0};  // half the interquartile range
  int repeats = 1;
  // The fastest repeat and the 90th percentile of the repeats; 0 if not
  // recorded.
  Nanoseconds min{0};
  Nanoseconds p90{0};
  // The host's time to enqueue a run; 0 if not recorded, or if the host
  // computes itself.
  Nanoseconds enqueue{0};
  // Repeats that were discarded because something else disturbed them.
  int outliers = 0;
  // Of filter gradients, the time of a run that adds to the output (beta 1), as
  // every micro-batch but the first does; 0 if not recorded. See AddingTime().
  Nanoseconds adding{0};
  // The error of the algorithm's result in units of 1e-12 (base/accuracy.h); 0
  // if not recorded.
  std::int64_t error_ppt = 0;

  friend bool operator==(const MeasuredPoint&, const MeasuredPoint&) = default;
};

// The time of a run as a micro-batch that is not the first.
Nanoseconds AddingTime(const MeasuredPoint& point);

// A measured number of a point; the other members identify the point.
struct PointNumber {
  // The name in tables, JSON and messages; a time's ends in "_ns", an error's
  // in "_ppt". CSV has microseconds and plain fractions instead.
  std::string_view name;
  int field;         // of ucudnn.v1.Measurement
  std::int64_t max;  // the largest accepted; the smallest is 0
  std::int64_t (*get)(const MeasuredPoint& point);
  void (*set)(MeasuredPoint& point, std::int64_t value);

  bool is_time() const { return name.ends_with("_ns"); }
  bool is_error() const { return name.ends_with("_ppt"); }
};

// All measured numbers, time_ns first.
std::span<const PointNumber> PointNumbers();

// Sets the number. kInvalidArgument, naming it, if `value` is not in range.
Status SetNumber(const PointNumber& number, std::int64_t value,
                 MeasuredPoint* point);

// kInvalidArgument, naming the number, if one is not in range.
Status CheckPoint(const MeasuredPoint& point);

// A point without measured numbers. kInvalidArgument, naming the field, if the
// batch or the workspace is not in range, the algorithm is not named, or the
// precision is none.
Result<MeasuredPoint> MakePoint(std::int64_t batch, std::string_view algorithm,
                                std::string_view math,
                                std::string_view precision,
                                std::int64_t workspace_bytes);

// A device's clocks during a measurement; 0 and empty if unknown.
struct DeviceClocks {
  std::int64_t sm_mhz = 0;
  std::int64_t memory_mhz = 0;
  std::string throttle;  // throttle reasons, for people

  friend bool operator==(const DeviceClocks&, const DeviceClocks&) = default;
};

// Where, when and under which conditions points were measured; empty and 0 if
// unknown.
struct PointOrigin {
  std::string device;  // id; may be one that was never registered (imports)
  std::string driver;  // the other conditions
  std::int64_t measured_ms = 0;  // Unix time
  DeviceClocks clocks = {};

  friend bool operator==(const PointOrigin&, const PointOrigin&) = default;
};

}  // namespace ucudnn

#endif  // UCUDNN_BASE_MEASURED_POINT_H_
