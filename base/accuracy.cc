#include "base/accuracy.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "base/measured_point.h"
#include "base/text.h"

namespace ucudnn {
namespace {

constexpr double kPerUnit = 1e12;

std::map<Algorithm, std::int64_t> ErrorsOf(
    const std::vector<MeasuredPoint>& points) {
  std::map<Algorithm, std::int64_t> errors;
  for (const MeasuredPoint& point : points) {
    if (point.error_ppt == 0) continue;
    std::int64_t& error = errors[point.algorithm];
    error = std::max(error, point.error_ppt);
  }
  return errors;
}

std::int64_t BestOf(const std::map<Algorithm, std::int64_t>& errors) {
  std::int64_t best = kUselessPpt;
  for (const auto& [algorithm, error] : errors) best = std::min(best, error);
  return best;
}

// What max_error has to be for an error to be admitted: two digits, rounded up,
// as a smaller number would be refused again.
std::string BoundFor(std::int64_t ppt) {
  std::int64_t unit = 1;
  while (ppt / unit >= 100) unit *= 10;
  return fmt::format("{:.2g}", FromPpt((ppt + unit - 1) / unit * unit));
}

Result<double> ParseFraction(std::string_view text, bool (*accepts)(double),
                             std::string_view accepted) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && accepts(value)) return value;
  return Fail(Code::kInvalidArgument, "'{}' is not an error; {} is accepted",
              Excerpt(text), accepted);
}

}  // namespace

std::int64_t PartsPerTrillion(double error) {
  const double ppt = std::nearbyint(error * kPerUnit);
  if (!(ppt < static_cast<double>(kUselessPpt))) return kUselessPpt;
  return std::max<std::int64_t>(static_cast<std::int64_t>(ppt), 1);
}

double FromPpt(std::int64_t ppt) { return static_cast<double>(ppt) / kPerUnit; }

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

Result<double> ParseMaxError(std::string_view text) {
  return ParseFraction(
      text, [](double e) { return e > 0 && e < 1; },
      "a number between 0 and 1, such as 1e-5,");
}

Result<double> ParseError(std::string_view text) {
  return ParseFraction(
      text, [](double e) { return e >= 0; }, "a number from 0 on");
}

bool IsAccurate(Precision precision, double max_error, std::int64_t ppt,
                std::int64_t best) {
  if (ppt == 0) return true;
  if (ppt >= kUselessPpt) return false;
  if (max_error > 0) return ppt <= PartsPerTrillion(max_error);
  return ppt <= PartsPerTrillion(AdmittedError(precision)) || ppt / 4 <= best;
}

std::vector<MeasuredPoint> LeaveOutInexact(Precision precision,
                                           double max_error,
                                           std::vector<MeasuredPoint>* points) {
  const std::map<Algorithm, std::int64_t> errors = ErrorsOf(*points);
  std::vector<MeasuredPoint> left_out;
  if (errors.empty()) return left_out;
  const std::int64_t best = BestOf(errors);
  const auto kept = std::stable_partition(
      points->begin(), points->end(), [&](const MeasuredPoint& point) {
        const auto error = errors.find(point.algorithm);
        return error == errors.end() ||
               IsAccurate(precision, max_error, error->second, best);
      });
  left_out.assign(kept, points->end());
  points->erase(kept, points->end());
  return left_out;
}

void SpreadErrors(std::vector<MeasuredPoint>* points) {
  const std::map<Algorithm, std::int64_t> errors = ErrorsOf(*points);
  for (MeasuredPoint& point : *points) {
    const auto error = errors.find(point.algorithm);
    if (error != errors.end()) point.error_ppt = error->second;
  }
}

Status KeepAccurate(Precision precision, double max_error,
                    std::vector<MeasuredPoint>* points,
                    std::string_view kernel) {
  const auto left_out = LeaveOutInexact(precision, max_error, points);
  if (left_out.empty() || !points->empty()) return {};
  const std::string bound = BoundFor(BestOf(ErrorsOf(left_out)));
  return Fail(Code::kFailedPrecondition,
              "{}: every measured algorithm errs by more than admitted; {}",
              kernel,
              ParseMaxError(bound)
                  ? fmt::format("max_error {} admits the most accurate", bound)
                  : "no max_error admits any");
}

}  // namespace ucudnn
