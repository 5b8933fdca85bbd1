#include "device/accuracy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
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

std::int64_t ErrorOf(const std::string& result,
                     const std::vector<Sample>& samples, Precision precision) {
  const auto size = static_cast<std::size_t>(ElementBytes(precision));
  double error = 0;
  double largest = 0;
  for (const Sample& sample : samples) {
    const double got =
        DecodeElements(
            result.substr(static_cast<std::size_t>(sample.index) * size, size),
            precision)
            .front();
    if (!std::isfinite(got)) return kUselessPpt;
    error = std::max(error, std::abs(got - sample.exact));
    largest = std::max(largest, std::abs(sample.exact));
  }
  // 0 / 0 would be a useless result.
  return PartsPerTrillion(error == 0 ? 0 : error / largest);
}

// For each algorithm, the error of one run; kUselessPpt if it cannot run, 0 if
// there is no memory for its workspace.
Result<std::vector<std::int64_t>> MeasureErrors(
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

  std::vector<std::int64_t> errors;
  std::string bytes(static_cast<std::size_t>(result.size().count()), '\0');
  for (const Algorithm& algorithm : algorithms) {
    errors.push_back(kUselessPpt);
    const auto convolution = device.Prepare(problem, batch, algorithm);
    if (!convolution) continue;
    const auto workspace = device.Allocate((*convolution)->workspace());
    if (!workspace) errors.back() = 0;
    if (!workspace) continue;
    UCUDNN_RETURN_IF_ERROR(device.Fill(result.data(), 0, result.size()));
    Status ran = (*convolution)
                     ->Run({.a = da.data(),
                            .b = db.data(),
                            .out = result.data(),
                            .alpha = alpha,
                            .beta = 0},
                           workspace->data(), workspace->size());
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

}  // namespace

Status AlgorithmErrors::Learn(Device& device, const ConvProblem& problem,
                              BatchSize batch,
                              const std::vector<Algorithm>& algorithms) {
  auto errors = MeasureErrors(device, problem, batch, algorithms);
  if (!errors && errors.error().code == Code::kResourceExhausted) {
    errors = std::vector<std::int64_t>(algorithms.size(), 0);
  }
  if (!errors) return tl::unexpected<Error>(std::move(errors).error());
  for (std::size_t i = 0; i < algorithms.size(); ++i) {
    known_[problem][algorithms[i]] = (*errors)[i];
  }
  return {};
}

Status AlgorithmErrors::AddTo(Device& device, const ConvProblem& problem,
                              std::span<MeasuredPoint> points) {
  if (known_.size() > kMostProblems) known_.clear();
  std::map<Algorithm, std::int64_t>& known = known_[problem];
  // Few images reveal an algorithm's error as well as many, but not every
  // algorithm takes few.
  constexpr BatchSize kFew(2);
  std::map<BatchSize, std::vector<Algorithm>> unknown;
  for (const MeasuredPoint& point : points) {
    if (point.error_ppt > 0) known[point.algorithm] = point.error_ppt;
  }
  for (const MeasuredPoint& point : points) {
    if (!known.contains(point.algorithm)) {
      unknown[std::min(point.batch, kFew)].push_back(point.algorithm);
    }
  }
  for (const auto& [few, algorithms] : unknown) {
    UCUDNN_RETURN_IF_ERROR(Learn(device, problem, few, algorithms));
  }
  for (MeasuredPoint& point : points) {
    if (point.error_ppt > 0) continue;
    if (known[point.algorithm] == kUselessPpt && !unknown.empty() &&
        point.batch > kFew) {
      UCUDNN_RETURN_IF_ERROR(
          Learn(device, problem, point.batch, {point.algorithm}));
    }
    point.error_ppt = known[point.algorithm];
  }
  return {};
}

Result<std::vector<std::int64_t>> AlgorithmErrors::Of(
    Device& device, const ConvProblem& problem, BatchSize batch,
    std::span<const Algorithm> algorithms) {
  std::vector<MeasuredPoint> points;
  for (const Algorithm& algorithm : algorithms) {
    points.push_back({batch, algorithm, Bytes()});
  }
  UCUDNN_RETURN_IF_ERROR(AddTo(device, problem, points));
  std::vector<std::int64_t> errors;
  for (const MeasuredPoint& point : points) errors.push_back(point.error_ppt);
  return errors;
}

Result<bool> AlgorithmErrors::Admit(Device& device, const ConvProblem& problem,
                                    BatchSize batch, double max_error,
                                    const Algorithm& algorithm) {
  UCUDNN_ASSIGN_OR_RETURN(auto errors,
                          Of(device, problem, batch, std::span(&algorithm, 1)));
  const std::int64_t error = errors[0];
  if (IsAccurate(problem.precision, max_error, error, 0)) return true;
  if (max_error > 0) return false;
  // Perhaps no algorithm is better.
  UCUDNN_ASSIGN_OR_RETURN(const auto listed,
                          device.ListAlgorithms(problem, batch));
  std::vector<Algorithm> all;
  for (const Candidate& candidate : listed) all.push_back(candidate.algorithm);
  UCUDNN_ASSIGN_OR_RETURN(errors, Of(device, problem, batch, all));
  errors.push_back(error);
  return IsAccurate(problem.precision, max_error, error,
                    *std::ranges::min_element(errors));
}

Result<Candidate> SuggestWithin(Device& device, const ConvProblem& problem,
                                BatchSize batch, Bytes limit, double max_error,
                                AlgorithmErrors* errors) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Candidate> candidates,
                          device.SuggestAlgorithms(problem, batch));
  if (candidates.empty()) {
    return Fail(Code::kUnimplemented, "{} has no algorithm for {} on {} images",
                device.info().id, ToString(problem), batch.count());
  }
  Bytes smallest = Bytes::Max();
  bool fits = false;
  for (const Candidate& candidate : candidates) {
    smallest = std::min(smallest, candidate.workspace);
    if (candidate.workspace > limit) continue;
    fits = true;
    UCUDNN_ASSIGN_OR_RETURN(
        const bool admitted,
        errors->Admit(device, problem, batch, max_error, candidate.algorithm));
    if (admitted) return candidate;
  }
  if (fits) {
    return Fail(Code::kFailedPrecondition,
                "no undivided algorithm for {} on {} images within {} is "
                "accurate enough",
                ToString(problem), batch.count(), FormatBytes(limit));
  }
  return Fail(Code::kFailedPrecondition,
              "no undivided algorithm for {} on {} images fits into {}; the "
              "smallest needs {}",
              ToString(problem), batch.count(), FormatBytes(limit),
              FormatBytes(smallest));
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
