#include "solver/micro_batch/adaptive.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "solver/micro_batch/wr.h"

namespace ucudnn {
namespace {

SizedAlgorithm SizeOf(const MeasuredPoint& point) {
  return {point.batch, point.algorithm, point.workspace};
}

double PerImage(const MeasuredPoint& point) {
  return static_cast<double>(point.time.count()) /
         static_cast<double>(point.batch.count());
}

// Estimates of one algorithm's times.
class Belief {
 public:
  void Add(BatchSize batch, Nanoseconds time) {
    // Of several workspaces, the fastest counts.
    const auto [known, added] = times_.try_emplace(batch, time);
    if (!added) known->second = std::min(known->second, time);
    // A batch that took longer than a larger one says nothing about its
    // neighbours, so it counts with the larger one's time.
    auto above = std::next(known);
    if (above != times_.end()) {
      known->second = std::min(known->second, above->second);
    }
    for (auto below = std::make_reverse_iterator(known);
         below != times_.rend() && below->second > known->second; ++below) {
      below->second = known->second;
    }
  }

  Nanoseconds At(BatchSize batch, double optimism) const {
    if (times_.empty()) return Nanoseconds(0);
    const auto above = times_.lower_bound(batch);
    double expected = 0;
    const auto b = static_cast<double>(batch.count());
    if (above == times_.begin() || above == times_.end()) {
      const auto& [size, time] =
          above == times_.end() ? *std::prev(above) : *above;
      expected = static_cast<double>(time.count()) * b /
                 static_cast<double>(size.count());
    } else {
      const auto below = std::prev(above);
      const auto b1 = static_cast<double>(below->first.count());
      const auto b2 = static_cast<double>(above->first.count());
      const auto t1 = static_cast<double>(below->second.count());
      const auto t2 = static_cast<double>(above->second.count());
      expected = t1 + (t2 - t1) * (b - b1) / (b2 - b1);
    }
    return Nanoseconds(std::llround(expected * (1.0 - optimism)));
  }

 private:
  std::map<BatchSize, Nanoseconds> times_;
};

class Chooser {
 public:
  Chooser(std::span<const SizedAlgorithm> choices,
          std::span<const MeasuredPoint> measured,
          const AdaptiveRequest& request)
      : request_(request) {
    for (const MeasuredPoint& point : measured) {
      if (point.batch > request.batch) continue;
      MeasuredPoint& exact = measured_.emplace_back(point);
      exact.spread = Nanoseconds(0);
      known_.insert(SizeOf(exact));
      if (exact.repeats < request.settled_repeats) {
        doubtful_.insert(SizeOf(exact));
      }
      beliefs_[exact.algorithm].Add(exact.batch, exact.time);
      if (exact.adding > Nanoseconds(0)) {
        adding_[exact.algorithm].Add(exact.batch, exact.adding);
      }
    }
    for (const SizedAlgorithm& choice : choices) {
      if (choice.batch > request.batch || choice.batch < BatchSize(1)) continue;
      choices_[choice.algorithm].push_back(choice);
    }
    for (auto& [algorithm, sizes] : choices_) std::ranges::sort(sizes);
  }

  Result<std::vector<SizedAlgorithm>> Next() {
    for (const Bytes limit : request_.limits) Seed(limit);
    if (wanted_.empty()) {
      for (const Bytes limit : request_.limits) {
        UCUDNN_RETURN_IF_ERROR(Improve(limit));
      }
    }
    return std::vector<SizedAlgorithm>(wanted_.begin(), wanted_.end());
  }

 private:
  void Want(const SizedAlgorithm& size) {
    if (!known_.contains(size)) wanted_.insert(size);
  }

  // Asks for the largest batches that fit, then for powers of two below.
  void Seed(Bytes limit) {
    std::vector<std::pair<const MeasuredPoint*, SizedAlgorithm>> largest;
    double best = 0;
    bool complete = true;
    for (const auto& [algorithm, sizes] : choices_) {
      const SizedAlgorithm* fit = LargestWithin(sizes, limit, request_.batch);
      if (fit == nullptr) continue;
      const MeasuredPoint* point = Measured(*fit);
      if (point == nullptr) {
        wanted_.insert(*fit);
        complete = false;
        continue;
      }
      largest.emplace_back(point, *fit);
      if (best == 0 || PerImage(*point) < best) best = PerImage(*point);
    }
    if (!complete) return;
    for (const auto& [point, fit] : largest) {
      if (PerImage(*point) > best * request_.far_behind) continue;
      std::int64_t power = 1;
      while (power * 2 < fit.batch.count()) power *= 2;
      const SizedAlgorithm* below =
          LargestWithin(choices_[fit.algorithm], limit, BatchSize(power));
      if (below != nullptr) Want(*below);
    }
  }

  static const SizedAlgorithm* LargestWithin(
      const std::vector<SizedAlgorithm>& sizes, Bytes limit, BatchSize most) {
    const SizedAlgorithm* largest = nullptr;
    for (const SizedAlgorithm& size : sizes) {
      if (size.workspace <= limit && size.batch <= most) largest = &size;
    }
    return largest;
  }

  const MeasuredPoint* Measured(const SizedAlgorithm& size) const {
    const auto found = std::ranges::find(measured_, size, SizeOf);
    return found == measured_.end() ? nullptr : &*found;
  }

  MeasuredPoint Estimate(const SizedAlgorithm& size) {
    MeasuredPoint point = {size.batch, size.algorithm, size.workspace};
    point.time = beliefs_[size.algorithm].At(size.batch, request_.optimism);
    point.adding = adding_[size.algorithm].At(size.batch, request_.optimism);
    return point;
  }

  // Asks for the unmeasured point that the estimated plan under `limit` depends
  // on most, unless the measured points give as good a plan.
  Status Improve(Bytes limit) {
    std::vector<MeasuredPoint> believed;
    for (const MeasuredPoint& point : measured_) {
      if (point.workspace <= limit) believed.push_back(point);
    }
    const std::vector<MeasuredPoint> certain = believed;
    for (MeasuredPoint& point : believed) {
      if (!doubtful_.contains(SizeOf(point))) continue;
      for (Nanoseconds* time : {&point.time, &point.adding}) {
        *time = Nanoseconds(std::llround(static_cast<double>(time->count()) *
                                         (1.0 - request_.doubt)));
      }
    }
    for (const auto& [algorithm, sizes] : choices_) {
      for (const SizedAlgorithm& size : sizes) {
        if (size.workspace > limit || known_.contains(size)) continue;
        believed.push_back(Estimate(size));
      }
    }
    const auto solve = [&](std::span<const MeasuredPoint> points) {
      return SolveWrCurve(points, request_.batch, limit,
                          BatchPolicy::kAdaptive);
    };
    UCUDNN_ASSIGN_OR_RETURN(const WrCurve hoped, solve(believed));
    const auto hope = hoped.TimeAt(request_.batch);
    if (!hope) return {};
    UCUDNN_ASSIGN_OR_RETURN(const WrCurve sure, solve(certain));
    const auto now = sure.TimeAt(request_.batch);
    if (now &&
        static_cast<double>(hope->count()) >=
            static_cast<double>(now->count()) * (1.0 - request_.tolerance)) {
      return {};
    }
    std::optional<SizedAlgorithm> most;
    std::int64_t images = 0;
    for (const MicroBatch& micro : hoped.PlanAt(request_.batch)) {
      const SizedAlgorithm size{micro.batch, micro.algorithm, micro.workspace};
      if (known_.contains(size) && !doubtful_.contains(size)) continue;
      if (micro.batch.count() * micro.count > images) {
        images = micro.batch.count() * micro.count;
        most = size;
      }
    }
    if (most) wanted_.insert(*most);
    return {};
  }

  const AdaptiveRequest& request_;
  std::vector<MeasuredPoint> measured_;  // as if without spread
  std::set<SizedAlgorithm> known_;
  std::set<SizedAlgorithm> doubtful_;  // the provisional points
  std::map<Algorithm, Belief> beliefs_;
  std::map<Algorithm, Belief> adding_;  // of adding times, where recorded
  std::map<Algorithm, std::vector<SizedAlgorithm>> choices_;
  std::set<SizedAlgorithm> wanted_;
};

Status Check(const AdaptiveRequest& request) {
  for (const Bytes limit : request.limits) {
    UCUDNN_RETURN_IF_ERROR(CheckWrArguments({}, request.batch, limit));
  }
  if (!(request.optimism >= 0 && request.optimism < 1) ||
      !(request.tolerance >= 0 && request.tolerance < 1) ||
      !(request.doubt >= 0 && request.doubt < 1) ||
      !(request.far_behind >= 1)) {
    return Fail(Code::kInvalidArgument,
                "optimism {}, tolerance {}, doubt {}, far_behind {}: 0 to "
                "below 1 of the first three, 1 or more of the last are "
                "accepted",
                request.optimism, request.tolerance, request.doubt,
                request.far_behind);
  }
  return {};
}

}  // namespace

std::vector<BatchSize> SizesToAsk(BatchSize batch) {
  constexpr std::int64_t kEach = 16;
  constexpr std::int64_t kParts = 16;
  std::set<BatchSize> sizes = {batch};
  const std::int64_t whole = batch.count();
  for (std::int64_t b = 1; b <= std::min(kEach, whole); ++b) {
    sizes.insert(BatchSize(b));
  }
  for (std::int64_t octave = kEach; octave < whole; octave *= 2) {
    const std::int64_t step = octave / 8;
    for (std::int64_t b = octave + step; b <= 2 * octave && b < whole;
         b += step) {
      sizes.insert(BatchSize(b));
    }
  }
  for (std::int64_t n = 2; n <= kParts; ++n) {
    sizes.insert(BatchSize((whole + n - 1) / n));
  }
  return {sizes.begin(), sizes.end()};
}

Result<std::vector<SizedAlgorithm>> NextToMeasure(
    std::span<const SizedAlgorithm> choices,
    std::span<const MeasuredPoint> measured, const AdaptiveRequest& request) {
  UCUDNN_RETURN_IF_ERROR(Check(request));
  return Chooser(choices, measured, request).Next();
}

Result<std::vector<SizedAlgorithm>> PointsInUse(
    std::span<const MeasuredPoint> measured, const AdaptiveRequest& request) {
  UCUDNN_RETURN_IF_ERROR(Check(request));
  std::set<SizedAlgorithm> used;
  for (const Bytes limit : request.limits) {
    UCUDNN_ASSIGN_OR_RETURN(
        const WrCurve curve,
        SolveWrCurve(measured, request.batch, limit, BatchPolicy::kAdaptive));
    for (const MicroBatch& micro : curve.PlanAt(request.batch)) {
      used.insert({micro.batch, micro.algorithm, micro.workspace});
    }
  }
  return std::vector<SizedAlgorithm>(used.begin(), used.end());
}

}  // namespace ucudnn
