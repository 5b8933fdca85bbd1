#include "base/training/device_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace ucudnn {
namespace {

constexpr double kTera = 1e6;  // per microsecond
constexpr double kGiga = 1e3;

struct Preset {
  std::string_view name;
  double memory_gb;
  double fp32_tflops;
  double tf32_tflops;
  double half_tflops;
  double memory_gb_per_s;
  int launch_us;
  double link_gb_per_s;
};

// A device without faster units for a precision computes it as FP32.
constexpr std::array kPresets = {
    Preset{"GTX970", 3.5, 2.47, 2.47, 2.47, 100, 10, 12.8},
    Preset{"TITANX", 12, 5.0, 5.0, 5.0, 200, 10, 12.8},
    Preset{"K40", 12, 2.6, 2.6, 2.6, 170, 10, 10},
    Preset{"P100-NVLINK", 16, 7.4, 7.4, 7.4, 510, 8, 34.1},
    Preset{"V100", 16, 11, 11, 11, 720, 7, 12},
    Preset{"H200", 149, 47, 350, 790, 4300, 5, 55},
};

Status CheckRate(std::string_view field, double rate) {
  // Far beyond any device, and small enough that times cannot overflow.
  if (std::isfinite(rate) && rate >= 1e-3 && rate <= 1e15) return {};
  return Fail(Code::kInvalidArgument,
              "{} is {} per microsecond; 0.001 to 1e15 is accepted", field,
              rate);
}

Status CheckRates(const ArithmeticRates& rates, std::string_view when) {
  for (const auto& [field, rate] : {std::pair("the FP32 rate", rates.fp32),
                                    {"the TF32 rate", rates.tf32},
                                    {"the rate of half data", rates.half}}) {
    UCUDNN_RETURN_IF_ERROR(CheckRate(fmt::format("{}{}", field, when), rate));
  }
  return {};
}

}  // namespace

double ArithmeticRates::Of(Precision precision) const {
  switch (precision) {
    case Precision::kFp32:
      return fp32;
    case Precision::kTf32:
      return tf32;
    case Precision::kTrueHalf:
    case Precision::kPseudoHalf:
    case Precision::kBf16:
      return half;
  }
  return fp32;
}

double DeviceModel::SlowdownUnderLoad(Precision precision, double operations,
                                      Nanoseconds time) const {
  const double full = arithmetic.Of(precision);
  const double sustained = loaded.Of(precision);
  if (sustained <= 0 || sustained >= full || time <= Nanoseconds(0)) return 1;
  const double rate = operations / Microseconds(time);
  return std::max(1.0, full / sustained * std::cbrt(rate / full));
}

Nanoseconds DeviceModel::OffloadTime(Bytes bytes) const {
  return transfer_latency +
         TimeAtRate(static_cast<double>(bytes.count()), d2h_rate);
}

Nanoseconds DeviceModel::PrefetchTime(Bytes bytes) const {
  return transfer_latency +
         TimeAtRate(static_cast<double>(bytes.count()), h2d_rate);
}

Result<DeviceModel> DeviceModelPreset(std::string_view name) {
  const auto found =
      std::find_if(kPresets.begin(), kPresets.end(),
                   [&](const Preset& preset) { return preset.name == name; });
  if (found == kPresets.end()) {
    return Fail(Code::kNotFound,
                "there is no device model '{}'; {} or the path of a JSON file "
                "is accepted",
                Excerpt(name), fmt::join(DeviceModelPresets(), ", "));
  }
  DeviceModel model;
  model.name = found->name;
  model.memory = Bytes(std::llround(found->memory_gb * 1e9));
  model.arithmetic = {.fp32 = found->fp32_tflops * kTera,
                      .tf32 = found->tf32_tflops * kTera,
                      .half = found->half_tflops * kTera};
  model.memory_rate = found->memory_gb_per_s * kGiga;
  model.launch = std::chrono::microseconds(found->launch_us);
  model.d2h_rate = model.h2d_rate = found->link_gb_per_s * kGiga;
  return model;
}

std::vector<std::string> DeviceModelPresets() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

Status Validate(const DeviceModel& model) {
  UCUDNN_RETURN_IF_ERROR(CheckRates(model.arithmetic, ""));
  if (model.loaded != ArithmeticRates()) {
    UCUDNN_RETURN_IF_ERROR(CheckRates(model.loaded, " under load"));
  }
  UCUDNN_RETURN_IF_ERROR(CheckRate("the memory rate", model.memory_rate));
  UCUDNN_RETURN_IF_ERROR(CheckRate("the link to the host", model.d2h_rate));
  UCUDNN_RETURN_IF_ERROR(CheckRate("the link from the host", model.h2d_rate));
  if (model.both_ways_rate != 0) {
    UCUDNN_RETURN_IF_ERROR(
        CheckRate("the link in both directions", model.both_ways_rate));
  }
  for (const auto& [field, time] :
       {std::pair("the launch", model.launch),
        std::pair("the transfer latency", model.transfer_latency)}) {
    if (time < Nanoseconds(0) || time > std::chrono::hours(1)) {
      return Fail(Code::kInvalidArgument,
                  "{} takes {} us; from 0 to an hour is accepted", field,
                  Microseconds(time));
    }
  }
  if (model.memory < Bytes(0)) {
    return Fail(Code::kInvalidArgument,
                "the memory is {} bytes; a number from 0 on is accepted",
                model.memory.count());
  }
  for (const ModelledAlgorithm& algorithm : model.algorithms) {
    if (algorithm.name != "WINOGRAD_NONFUSED" && algorithm.name != "FFT") {
      return Fail(Code::kInvalidArgument,
                  "there is no formula for the workspace of '{}'; "
                  "WINOGRAD_NONFUSED and FFT are accepted",
                  Excerpt(algorithm.name));
    }
    UCUDNN_RETURN_IF_ERROR(
        CheckRate(algorithm.name + "'s speedup", algorithm.speedup));
  }
  return {};
}

Nanoseconds TimeAtRate(double quantity, double rate) {
  // Clamped at 2^61 ns (73 years), which cannot overflow.
  return Nanoseconds(
      std::llround(std::min(quantity / rate * 1e3, std::ldexp(1.0, 61))));
}

std::optional<Bytes> ModelledWorkspace(std::string_view algorithm,
                                       const ConvProblem& problem,
                                       BatchSize batch) {
  const ConvGeometry& g = problem.geometry;
  const auto plain = [](const Spatial& s) { return s == Spatial{1, 1, 1}; };
  if (g.spatial_dims != 2 || g.groups != 1 || !plain(g.stride) ||
      !plain(g.dilation)) {
    return std::nullopt;
  }
  const auto c = static_cast<double>(g.channels);
  const auto k = static_cast<double>(g.filters);
  const auto b = static_cast<double>(batch.count());
  double bytes = 0;
  if (algorithm == "WINOGRAD_NONFUSED") {
    if (g.filter != Spatial{1, 3, 3}) return std::nullopt;
    const Spatial out = g.output();
    const double tiles = b * static_cast<double>((out[1] + 3) / 4) *
                         static_cast<double>((out[2] + 3) / 4);
    bytes = 36.0 * static_cast<double>(ElementBytes(problem.precision)) *
            (c * k + (c + k) * tiles);
  } else if (algorithm == "FFT") {
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
      if (g.input[i] > 32 - g.filter[i] || g.filter[i] == 1) {
        return std::nullopt;
      }
    }
    bytes = 4352.0 * (c * k + 2.0 * (c + k) * b);
  } else {
    return std::nullopt;
  }
  if (bytes > std::ldexp(1.0, 60)) return std::nullopt;
  return Bytes(std::llround(bytes));
}

}  // namespace ucudnn
