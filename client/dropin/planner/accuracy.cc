#include "client/dropin/planner/accuracy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "device/elements.h"
#include "device/reference_element.h"

namespace ucudnn {
namespace {

// Enough samples to find the larger errors; fewer where each is a long sum.
std::size_t SamplesOf(ConvOp op) {
  return op == ConvOp::kBackwardFilter ? 128 : 512;
}

constexpr double kUseless = std::numeric_limits<double>::infinity();

// Values in [-1, 1] as the device stores them: with a full float mantissa, so
// that rounding shows, or exact in the shorter formats.
std::string Operand(std::int64_t count, Precision precision,
                    std::uint64_t seed) {
  if (ElementBytes(precision) != sizeof(float)) {
    return RandomElements(count, precision, seed);
  }
  std::mt19937_64 random(seed);
  std::string bytes(static_cast<std::size_t>(count) * sizeof(float), '\0');
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
    const float value = static_cast<float>(random() >> 40) * 0x1p-23F - 1.0F;
    std::memcpy(&bytes[at], &value, sizeof value);
  }
  return bytes;
}

Result<DeviceBuffer> OnDevice(Device& device, const std::string& bytes) {
  const Bytes size(static_cast<std::int64_t>(bytes.size()));
  UCUDNN_ASSIGN_OR_RETURN(DeviceBuffer buffer, device.Allocate(size));
  UCUDNN_RETURN_IF_ERROR(device.Upload(buffer.data(), bytes.data(), size));
  return buffer;
}

// A sampled element of the result and its exact value.
struct Sample {
  std::int64_t index = 0;
  double exact = 0;
};

double ErrorOf(const std::string& result, const std::vector<Sample>& samples,
               Precision precision) {
  const auto size = static_cast<std::size_t>(ElementBytes(precision));
  double error = 0;
  double largest = 0;
  for (const Sample& sample : samples) {
    const double got =
        DecodeElements(
            result.substr(static_cast<std::size_t>(sample.index) * size, size),
            precision)
            .front();
    if (!std::isfinite(got)) return kUseless;
    error = std::max(error, std::abs(got - sample.exact));
    largest = std::max(largest, std::abs(sample.exact));
  }
  if (largest > 0) return error / largest;
  return error > 0 ? kUseless : 0.0;
}

}  // namespace

Result<std::vector<double>> MeasureErrors(
    Device& device, const ConvProblem& problem, BatchSize batch,
    std::span<const Algorithm> algorithms) {
  const Precision precision = problem.precision;
  const OperandElements elements = ElementsOf(problem, batch);
  const std::string a_bytes = Operand(elements.a, precision, 1);
  const std::string b_bytes = Operand(elements.b, precision, 2);
  const std::vector<float> a = DecodeElements(a_bytes, precision);
  const std::vector<float> b = DecodeElements(b_bytes, precision);
  // Keeps sums of many products within the range of half precision.
  const double products =
      static_cast<double>(problem.geometry.multiply_adds() * batch.count()) /
      static_cast<double>(elements.out);
  const auto alpha = static_cast<float>(
      std::exp2(-std::ceil(std::log2(std::max(products, 1.0)) / 2)));

  UCUDNN_ASSIGN_OR_RETURN(const auto da, OnDevice(device, a_bytes));
  UCUDNN_ASSIGN_OR_RETURN(const auto db, OnDevice(device, b_bytes));
  UCUDNN_ASSIGN_OR_RETURN(
      const auto result,
      device.Allocate(Bytes(elements.out * ElementBytes(precision))));
  std::vector<Sample> samples(SamplesOf(problem.op));
  std::mt19937_64 random(3);
  for (Sample& sample : samples) {
    sample.index = static_cast<std::int64_t>(
        random() % static_cast<std::uint64_t>(elements.out));
    sample.exact = double{alpha} *
                   ComputeElement(problem, batch, a, b, sample.index).value;
  }

  std::vector<double> errors;
  std::string bytes(static_cast<std::size_t>(result.size().count()), '\0');
  for (const Algorithm& algorithm : algorithms) {
    errors.push_back(kUseless);
    const auto convolution = device.Prepare(problem, batch, algorithm);
    if (!convolution) continue;
    UCUDNN_ASSIGN_OR_RETURN(const auto workspace,
                            device.Allocate((*convolution)->workspace()));
    UCUDNN_RETURN_IF_ERROR(device.Fill(result.data(), 0, result.size()));
    Status ran = (*convolution)
                     ->Run({.a = da.data(),
                            .b = db.data(),
                            .out = result.data(),
                            .alpha = alpha,
                            .beta = 0},
                           workspace.data(), workspace.size());
    if (ran) ran = device.Synchronize();
    if (!ran && ran.error().code == Code::kDataLoss) {
      return tl::unexpected<Error>(std::move(ran).error());
    }
    if (!ran) continue;
    UCUDNN_RETURN_IF_ERROR(
        device.Download(bytes.data(), result.data(), result.size()));
    errors.back() = ErrorOf(bytes, samples, precision);
  }
  return errors;
}

double AdmittedError(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return 1e-5;
    case Precision::kTf32:
    case Precision::kPseudoHalf:
      return 2e-3;
    case Precision::kTrueHalf:
    case Precision::kBf16:
      return 2e-2;
  }
  return 0;
}

bool IsAccurate(Precision precision, double error, double best) {
  return error <= AdmittedError(precision) ||
         (std::isfinite(error) && error <= 4 * best);
}

bool IsDeterministic(ConvOp op, const Algorithm& algorithm) {
  // cuDNN documents that these use atomic additions.
  const std::string name = EachBranch(algorithm).value_or(algorithm).name;
  if (op == ConvOp::kBackwardData) return name != "ALGO_0";
  if (op == ConvOp::kBackwardFilter) {
    return name != "ALGO_0" && name != "ALGO_3";
  }
  return true;
}

}  // namespace ucudnn
