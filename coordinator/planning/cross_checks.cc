#include "coordinator/planning/cross_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/conv_problem.h"
#include "base/other_tasks.h"

namespace ucudnn {
namespace {

constexpr int kSettledRepeats = 3;
constexpr Nanoseconds kCheap = std::chrono::milliseconds(20);
constexpr double kSpreads = 3.0;

// What a device measured of one point.
struct Sample {
  Nanoseconds time{0};
  Nanoseconds spread{0};
  std::string throttle;
  std::int64_t rounds = 0;
};

// How a device differs from the reference at one point.
struct Difference {
  double ratio = 1;
  int side = 0;  // 1: slower, -1: faster, 0: within noise
  bool final = false;
  std::string throttle;
};

// The driver of each device's latest measurement.
std::map<std::string, std::string> DriversOf(const KindCrossChecks& checks) {
  std::map<std::string, std::pair<std::int64_t, std::string>> newest;
  for (const CrossCheckMeasurement& m : checks.measurements) {
    auto& [sequence, driver] = newest[m.device];
    if (driver.empty() || m.sequence > sequence) {
      sequence = m.sequence;
      driver = m.driver;
    }
  }
  std::map<std::string, std::string> drivers;
  for (const auto& [device, of_device] : newest) {
    drivers[device] = of_device.second;
  }
  return drivers;
}

double MedianOf(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

Difference Compare(const Sample& sample, const Sample& reference) {
  Difference d;
  const auto usual = static_cast<double>(reference.time.count());
  d.ratio = static_cast<double>(sample.time.count()) / usual;
  const double noise =
      kSpreads *
      static_cast<double>((sample.spread + reference.spread).count()) / usual;
  const double tolerance = std::max(kCrossCheckTolerance, noise);
  d.side = d.ratio > 1 + tolerance ? 1 : d.ratio < 1 - tolerance ? -1 : 0;
  d.final = sample.rounds >= kCrossCheckRounds &&
            (d.side > 0 || reference.rounds >= kCrossCheckRounds);
  d.throttle = sample.throttle;
  return d;
}

DeviceComparison Judge(const std::string& device, Precision precision,
                       const std::vector<Difference>& differences) {
  DeviceComparison result;
  result.device = device;
  result.precision = precision;
  result.points = std::ssize(differences);
  std::vector<double> ratios;
  std::set<std::string> throttles;
  for (const Difference& d : differences) {
    ratios.push_back(d.ratio);
    if (!d.throttle.empty()) throttles.insert(d.throttle);
  }
  result.relative_time = MedianOf(std::move(ratios));
  const auto holds = [&](int side, bool final) {
    const auto n = std::ranges::count_if(differences, [&](const auto& d) {
      return d.side == side && (d.final || !final);
    });
    return differences.size() >= kMinCrossChecks && 2 * n > result.points;
  };
  for (const int side : {1, -1}) {
    result.suspected |= holds(side, false);
    result.deviates |= holds(side, true);
  }
  const double part = result.relative_time - 1;
  result.text = fmt::format(
      "takes {:.1f} % {} than others of its kind (median of {} cross-checks "
      "in {}{}{})",
      std::abs(part) * 100, part < 0 ? "less time" : "longer", result.points,
      Name(precision), throttles.empty() ? "" : "; slowed by ",
      fmt::join(throttles, ", "));
  return result;
}

}  // namespace

std::optional<CheckedWork> WorkOf(const std::string& problem) {
  if (const auto tasks = ParseOtherTasks(problem)) {
    return CheckedWork{std::nullopt, tasks->precision};
  }
  const auto conv = ParseConvProblem(problem);
  if (!conv) return std::nullopt;
  return CheckedWork{conv->op, conv->precision};
}

std::optional<CrossCheck> ChooseCrossCheck(
    const std::string& kind, const std::string& problem,
    std::span<const MeasuredPoint> points, std::span<const CrossCheck> known) {
  const std::optional<CheckedWork> work = WorkOf(problem);
  if (!work) return std::nullopt;
  const auto alike = std::ranges::count_if(
      known, [&](const auto& check) { return WorkOf(check.problem) == work; });
  if (alike >= kCrossChecksPerOp) return std::nullopt;
  const MeasuredPoint* best = nullptr;
  // Of the many tasks of a network, the shortest are mostly noise.
  const double sign = work->op ? 1 : -1;
  const auto per_image = [&](const MeasuredPoint& p) {
    return sign * static_cast<double>(p.time.count()) /
           static_cast<double>(p.batch.count());
  };
  for (const MeasuredPoint& point : points) {
    if (point.repeats < kSettledRepeats || point.time > kCheap) continue;
    if (best == nullptr || per_image(point) < per_image(*best)) best = &point;
  }
  if (best == nullptr) return std::nullopt;
  for (const CrossCheck& check : known) {
    if (check.problem == problem && check.batch == best->batch) {
      return std::nullopt;
    }
  }
  return CrossCheck{.kind = kind,
                    .problem = problem,
                    .batch = best->batch,
                    .algorithm = best->algorithm,
                    .workspace = best->workspace};
}

std::vector<DueCrossCheck> DueCrossChecks(
    std::span<const CrossCheck> points,
    std::span<const CrossCheckMeasurement> own, const std::string& driver,
    bool suspicion, UnixMillis now_ms) {
  std::set<std::pair<std::int64_t, std::int64_t>> done;
  for (const CrossCheckMeasurement& m : own) {
    if (m.driver != driver) continue;
    if (suspicion && m.measured_ms < now_ms - kCrossCheckAgeMs) continue;
    done.emplace(m.check, m.round);
  }
  std::vector<DueCrossCheck> due;
  for (std::int64_t round = 1; round <= (suspicion ? kCrossCheckRounds : 1);
       ++round) {
    for (const CrossCheck& point : points) {
      if (!done.contains({point.id, round})) due.push_back({point, round});
    }
  }
  return due;
}

std::vector<DeviceComparison> CompareDevices(const KindCrossChecks& checks) {
  const auto drivers = DriversOf(checks);
  // by cross-check, driver and device.
  std::map<std::pair<std::int64_t, std::string>, std::map<std::string, Sample>>
      samples;
  for (const CrossCheckMeasurement& m : checks.measurements) {
    if (m.driver != drivers.at(m.device)) continue;
    Sample& sample = samples[{m.check, m.driver}][m.device];
    ++sample.rounds;
    if (m.time <= Nanoseconds(0)) continue;
    if (sample.time == Nanoseconds(0) || m.time < sample.time) {
      sample.time = m.time;
      sample.spread = m.spread;
      sample.throttle = m.throttle;
    }
  }
  std::map<std::int64_t, Precision> precisions;
  for (const CrossCheck& point : checks.points) {
    if (const auto work = WorkOf(point.problem)) {
      precisions[point.id] = work->precision;
    }
  }
  std::map<std::string, std::map<Precision, std::vector<Difference>>> all;
  for (auto& [key, of_point] : samples) {
    std::erase_if(of_point, [](const auto& item) {
      return item.second.time == Nanoseconds(0);
    });
    if (of_point.size() < 2 || !precisions.contains(key.first)) continue;
    std::vector<const Sample*> sorted;
    for (const auto& [device, sample] : of_point) sorted.push_back(&sample);
    std::ranges::stable_sort(sorted, {}, [](auto* s) { return s->time; });
    const Sample& reference = *sorted[(sorted.size() - 1) / 2];
    for (const auto& [device, sample] : of_point) {
      all[device][precisions.at(key.first)].push_back(
          Compare(sample, reference));
    }
  }
  std::vector<DeviceComparison> compared;
  for (const auto& [device, by_precision] : all) {
    std::optional<DeviceComparison> worst;
    const auto weight = [](const DeviceComparison& c) {
      return std::tuple(c.deviates, c.suspected,
                        std::abs(std::log(c.relative_time)));
    };
    for (const auto& [precision, differences] : by_precision) {
      DeviceComparison c = Judge(device, precision, differences);
      if (!worst || weight(c) > weight(*worst)) worst = std::move(c);
    }
    compared.push_back(*std::move(worst));
  }
  return compared;
}

}  // namespace ucudnn
