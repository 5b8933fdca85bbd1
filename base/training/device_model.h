#ifndef UCUDNN_BASE_TRAINING_DEVICE_MODEL_H_
#define UCUDNN_BASE_TRAINING_DEVICE_MODEL_H_

// What memory plans assume about a device where nothing was measured: sustained
// rates, and the link to the host. Times are whole nanoseconds, rounded to the
// nearest once for each task and transfer.
//
//   convolution, Gemm    operations / arithmetic rate
//   any other task       launch + (bytes read + bytes written) / memory rate
//   transfer             latency + bytes / rate of the link in its direction
//
// A multiplication and an addition are two operations. Rates are in units of
// 1000: 12.8 GB/s are 12,800 bytes per microsecond.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// A convolution algorithm that a device is assumed to have although no profile
// has measured it. Its workspace follows a formula (ModelledWorkspace).
struct ModelledAlgorithm {
  std::string name;      // "WINOGRAD_NONFUSED" or "FFT"
  double speedup = 1.0;  // over operations / arithmetic rate

  friend bool operator==(const ModelledAlgorithm&,
                         const ModelledAlgorithm&) = default;
};

// Operations per microsecond, by the arithmetic of the precision.
struct ArithmeticRates {
  double fp32 = 0;
  double tf32 = 0;
  double half = 0;

  double Of(Precision precision) const;

  friend bool operator==(const ArithmeticRates&,
                         const ArithmeticRates&) = default;
};

struct DeviceModel {
  std::string name;
  Bytes memory;
  ArithmeticRates arithmetic;  // from rest
  // The same after seconds of load, when the device has lowered its clocks to
  // what its power and cooling sustain. 0: unknown.
  ArithmeticRates loaded;
  double memory_rate = 0;  // bytes per microsecond
  Nanoseconds launch{0};
  double d2h_rate = 0;  // bytes per microsecond
  double h2d_rate = 0;
  Nanoseconds transfer_latency{0};
  bool duplex = true;  // both directions at once, each at its full rate
  // Each direction's rate while both copy, for people: plans assume full rates
  // if `duplex`, else one direction at a time. 0: unknown.
  double both_ways_rate = 0;
  std::vector<ModelledAlgorithm> algorithms = {};

  // How many times as long convolutions take once they have kept the device
  // busy for seconds, which do `operations` in `time` from rest; 1 if that is
  // unknown, or if the device sustains `arithmetic`.
  //
  // At a power limit, clocks fall until the power, operations a second times
  // the energy of each, is what the limit allows. The voltage falls with the
  // clock, and an operation's energy with the square of the voltage. So the
  // clock, and with it the speed, falls with the cube root of the rate at full
  // clocks. `loaded` calibrates this.
  double SlowdownUnderLoad(Precision precision, double operations,
                           Nanoseconds time) const;
  // Times of copies to the host, and from it.
  Nanoseconds OffloadTime(Bytes bytes) const;
  Nanoseconds PrefetchTime(Bytes bytes) const;

  friend bool operator==(const DeviceModel&, const DeviceModel&) = default;
};

// GTX970, TITANX, K40, P100-NVLINK, V100, H200: sustained rates of the devices
// that the papers and our own measurements used; docs/memory.md has the
// origin of each number. kNotFound, naming the presets, for another name.
Result<DeviceModel> DeviceModelPreset(std::string_view name);
std::vector<std::string> DeviceModelPresets();

// kInvalidArgument, naming the field, unless all rates are positive and finite
// and nothing is negative.
Status Validate(const DeviceModel& model);

// `quantity` / `rate`, where the rate is per microsecond.
Nanoseconds TimeAtRate(double quantity, double rate);

// The workspace of an algorithm for one convolution, as observed in cuDNN 5 to
// 7: WINOGRAD_NONFUSED (3x3, stride 1, FP32 or half)
//   36 e (C K + (C + K) T),  T = b ceil(P / 4) ceil(Q / 4)
// and FFT (stride 1, maps up to 32 - R on a side)
//   4352 (C K + 2 (C + K) b).
// They reproduce tables 4 and 5 of the report on vDNNExt within 0.4 %. Empty if
// the algorithm does not support this convolution.
std::optional<Bytes> ModelledWorkspace(std::string_view algorithm,
                                       const ConvProblem& problem,
                                       BatchSize batch);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_TRAINING_DEVICE_MODEL_H_
