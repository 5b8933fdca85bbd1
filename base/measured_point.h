#ifndef UCUDNN_BASE_MEASURED_POINT_H_
#define UCUDNN_BASE_MEASURED_POINT_H_

// What was measured of one algorithm on one batch. MeasuredPoint is its one
// type; every form that it takes outside (a row of CSV or of a table, a JSON
// object, a message) is made and read by walking PointNumbers(). To add a
// number: a member and a line of PointNumbers() here, a field of
// ucudnn.v1.Measurement, and a migration that adds the column.

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// What is called to run a convolution: the algorithm as its library names it
// ("FFT_TILING", "jit_wino_4x3:avx512_core"), the math mode of its arithmetic
// ("FMA", "DEFAULT", "TENSOR_OP"; empty where there is no choice), and the
// precision it computes in, which may exceed the one asked for.
struct Algorithm {
  std::string name;
  std::string math;
  Precision precision = Precision::kFp32;

  friend auto operator<=>(const Algorithm&, const Algorithm&) = default;
};

// One micro-configuration with what was measured of it.
struct MeasuredPoint {
  BatchSize batch;
  Algorithm algorithm;
  Bytes workspace;
  Nanoseconds time{0};    // median of the repeats
  Nanoseconds spread{0};  // half the distance of the middle quartiles
  int repeats = 1;
  // The fastest repeat, and what nine of ten repeats do not exceed; 0 where it
  // was not noted.
  Nanoseconds min{0};
  Nanoseconds p90{0};
  // The host's, to enqueue a run; 0 where it was not noted, and where the host
  // computes itself.
  Nanoseconds enqueue{0};
  // Repeats that were thrown away because something else disturbed them.
  int outliers = 0;

  friend bool operator==(const MeasuredPoint&, const MeasuredPoint&) = default;
};

// One of the numbers that were measured; the others identify the point.
struct PointNumber {
  // In tables, JSON and messages; a time ends in "_ns".
  std::string_view name;
  int field;         // of ucudnn.v1.Measurement
  std::int64_t max;  // what is accepted, from 0
  std::int64_t (*get)(const MeasuredPoint& point);
  void (*set)(MeasuredPoint& point, std::int64_t value);

  bool is_time() const { return name.ends_with("_ns"); }
};

// All of them, time_ns first.
std::span<const PointNumber> PointNumbers();

// Sets the number. kInvalidArgument, naming it, if `value` is not in range.
Status SetNumber(const PointNumber& number, std::int64_t value,
                 MeasuredPoint* point);

// kInvalidArgument, naming it, if one of all numbers is not in range.
Status CheckPoint(const MeasuredPoint& point);

// A point with what identifies it. kInvalidArgument, naming the field, if the
// batch or the workspace is not in range, the algorithm is not named, or the
// precision is none.
Result<MeasuredPoint> MakePoint(std::int64_t batch, std::string_view algorithm,
                                std::string_view math,
                                std::string_view precision,
                                std::int64_t workspace_bytes);

// How a device was while something was measured; 0 and empty if unknown.
struct DeviceClocks {
  std::int64_t sm_mhz = 0;
  std::int64_t memory_mhz = 0;
  std::string throttle;  // what slowed it, for people

  friend bool operator==(const DeviceClocks&, const DeviceClocks&) = default;
};

// Where, when and under what points were measured; empty and 0 if unknown.
struct PointOrigin {
  std::string device;  // id; may be one that was never registered (imports)
  std::string driver;  // what else the points are true under
  std::int64_t measured_ms = 0;  // Unix time
  DeviceClocks clocks = {};

  friend bool operator==(const PointOrigin&, const PointOrigin&) = default;
};

}  // namespace ucudnn

#endif  // UCUDNN_BASE_MEASURED_POINT_H_
