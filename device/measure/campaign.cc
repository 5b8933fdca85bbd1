#include "device/measure/campaign.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "solver/micro_batch/adaptive.h"

namespace ucudnn {
namespace {

// Plans for the limits of a grid share their points, so unmeasured sizes need
// less optimistic estimates (see docs/adr on adaptive batch sizes).
constexpr double kOptimismOfGrid = 0.07;

// Caches the device's algorithms for each batch.
class Catalogue {
 public:
  Catalogue(Device& device, const CampaignTask& task)
      : device_(device), task_(task) {}

  // The sizes to choose from under the limits.
  Result<std::vector<SizedAlgorithm>> Choices(
      const std::vector<Bytes>& limits) {
    std::map<Algorithm, std::map<BatchSize, Bytes>> sizes;
    std::vector<BatchSize> asked = SizesToAsk(task_.batch);
    // The largest first, which is the most informative.
    std::ranges::reverse(asked);
    UCUDNN_RETURN_IF_ERROR(List(asked));
    for (const BatchSize batch : asked) {
      for (const Candidate& c : listed_.at(batch)) {
        sizes[c.algorithm].emplace(batch, c.workspace);
        if (c.last_resort) last_resorts_.insert(c.algorithm);
      }
    }
    std::vector<Search> searches;
    for (auto& [algorithm, of_algorithm] : sizes) {
      for (const Bytes limit : limits) {
        searches.emplace_back(algorithm, limit, task_.batch, &of_algorithm);
      }
    }
    UCUDNN_RETURN_IF_ERROR(AddLargest(std::move(searches)));
    const Bytes most = *std::ranges::max_element(limits);
    std::vector<SizedAlgorithm> choices;
    for (const auto& [algorithm, of_algorithm] : sizes) {
      for (const auto& [batch, workspace] : of_algorithm) {
        if (workspace > most) continue;
        choices.push_back({batch, algorithm, workspace});
      }
    }
    const auto is_last_resort = [&](const SizedAlgorithm& size) {
      return last_resorts_.contains(size.algorithm);
    };
    if (!std::ranges::all_of(choices, is_last_resort)) {
      std::erase_if(choices, is_last_resort);
    }
    return choices;
  }

  Candidate CandidateOf(const SizedAlgorithm& size) const {
    return {size.algorithm, size.workspace,
            last_resorts_.contains(size.algorithm)};
  }

 private:
  // A bisection for the largest batch of an algorithm that fits a limit. It
  // lies between the largest of `sizes` that fits and the next one.
  struct Search {
    Search(const Algorithm& a, Bytes l, BatchSize batch,
           std::map<BatchSize, Bytes>* s)
        : algorithm(a), limit(l), sizes(s) {
      too_large = batch.count() + 1;
      for (const auto& [size, workspace] : *sizes) {
        if (workspace <= limit) {
          fits = size.count();
          too_large = batch.count() + 1;
        } else {
          too_large = std::min(too_large, size.count());
        }
      }
      if (too_large > batch.count()) too_large = fits;
    }
    bool done() const { return too_large - fits <= 1; }
    BatchSize middle() const {
      return BatchSize(fits + (too_large - fits) / 2);
    }
    void Look(const std::vector<Candidate>& candidates) {
      const auto found =
          std::ranges::find(candidates, algorithm, &Candidate::algorithm);
      if (found != candidates.end() && found->workspace <= limit) {
        sizes->emplace(middle(), found->workspace);
        fits = middle().count();
      } else {
        too_large = middle().count();
      }
    }

    Algorithm algorithm;
    Bytes limit;
    std::map<BatchSize, Bytes>* sizes;
    std::int64_t fits = 0;
    std::int64_t too_large = 0;
  };

  // Runs all searches in step, so that the device can list several batches at
  // once.
  Status AddLargest(std::vector<Search> searches) {
    while (true) {
      std::erase_if(searches, [](const Search& s) { return s.done(); });
      if (searches.empty()) return {};
      std::set<BatchSize> middles;
      for (const Search& search : searches) middles.insert(search.middle());
      UCUDNN_RETURN_IF_ERROR(List({middles.begin(), middles.end()}));
      for (Search& search : searches) search.Look(listed_.at(search.middle()));
    }
  }

  // Lists the batches that are not known yet.
  Status List(std::vector<BatchSize> batches) {
    std::erase_if(batches, [&](BatchSize b) { return listed_.contains(b); });
    auto lists = device_.ListAlgorithmsOfEach(task_.problem, batches);
    for (std::size_t i = 0; i < batches.size(); ++i) {
      // A recorded device has only some batches.
      if (!lists[i] && (lists[i].error().code != Code::kNotFound ||
                        batches[i] == task_.batch)) {
        return tl::unexpected<Error>(std::move(lists[i]).error());
      }
      if (lists[i] && task_.deterministic) {
        std::erase_if(*lists[i], [&](const Candidate& c) {
          return !IsDeterministic(task_.problem.op, c.algorithm);
        });
      }
      listed_.emplace(batches[i], lists[i] ? *std::move(lists[i])
                                           : std::vector<Candidate>());
    }
    return {};
  }

  Device& device_;
  const CampaignTask& task_;
  std::map<BatchSize, std::vector<Candidate>> listed_;
  std::set<Algorithm> last_resorts_;
};

class AdaptiveCampaign {
 public:
  AdaptiveCampaign(Device& device, MeasureBench& bench,
                   const CampaignTask& task, const MeasureOptions& options,
                   const std::stop_token& stop, const MeasureProgress& progress,
                   const PointsSink& sink)
      : device_(device),
        catalogue_(device, task),
        bench_(bench),
        task_(task),
        thorough_(options),
        stop_(stop),
        progress_(progress),
        sink_(sink) {
    quick_ = thorough_;
    quick_.min_repeats = quick_.max_repeats = 1;
    for (const MeasuredPoint& point : task.known) {
      points_.insert_or_assign(SizeOf(point), point);
    }
  }

  Result<std::vector<MeasuredPoint>> Run() {
    AdaptiveRequest request;
    request.batch = task_.batch;
    request.limits = LimitsOf(task_.goal, task_.max_workspace);
    request.settled_repeats = thorough_.min_repeats;
    if (!task_.goal.limit) request.optimism = kOptimismOfGrid;
    thorough_.max_workspace = quick_.max_workspace = std::min(
        thorough_.max_workspace, *std::ranges::max_element(request.limits));
    UCUDNN_ASSIGN_OR_RETURN(std::vector<SizedAlgorithm> choices,
                            catalogue_.Choices(request.limits));
    const bool any = !choices.empty();
    UCUDNN_RETURN_IF_ERROR(LeaveOutInexact(&choices));
    // All algorithms may err by more than the goal admits.
    while (!any || !choices.empty() || !points_.empty()) {
      UCUDNN_ASSIGN_OR_RETURN(std::vector<SizedAlgorithm> next,
                              NextToMeasure(choices, Points(), request));
      if (next.empty()) {
        UCUDNN_ASSIGN_OR_RETURN(next, PointsInUse(Points(), request));
        std::erase_if(next,
                      [&](const SizedAlgorithm& s) { return IsSettled(s); });
        if (next.empty()) break;
      }
      // Large ones first, so that buffers are allocated once.
      std::ranges::sort(next, std::greater<>());
      for (const SizedAlgorithm& size : next) {
        // A size that comes up again after its first look is measured
        // thoroughly.
        UCUDNN_RETURN_IF_ERROR(Measure(size, !points_.contains(size)));
      }
      std::erase_if(choices, [&](const SizedAlgorithm& size) {
        return failed_.contains(size) || hopeless_.contains(size.algorithm);
      });
    }
    for (const SizedAlgorithm& size : inexact_) {
      UCUDNN_RETURN_IF_ERROR(Measure(size, true));
    }
    if (points_.empty() && failure_) {
      return Within(fmt::format("measuring {}, batch {}",
                                ToString(task_.problem), task_.batch.count()),
                    *std::move(failure_));
    }
    return std::move(measured_);
  }

 private:
  static SizedAlgorithm SizeOf(const MeasuredPoint& point) {
    return {point.batch, point.algorithm, point.workspace};
  }

  // Leaves `choices` and points of algorithms that the goal admits, and notes
  // where the others are to be looked at.
  Status LeaveOutInexact(std::vector<SizedAlgorithm>* choices) {
    std::map<Algorithm, SizedAlgorithm> largest;
    for (const SizedAlgorithm& size : *choices) {
      SizedAlgorithm& known =
          largest.try_emplace(size.algorithm, size).first->second;
      known = std::max(known, size);
    }
    std::vector<MeasuredPoint> known;
    std::ranges::copy_if(
        task_.known, std::back_inserter(known),
        [](const MeasuredPoint& point) { return point.error_ppt > 0; });
    for (const auto& [algorithm, size] : largest) {
      known.push_back({size.batch, algorithm, size.workspace});
    }
    UCUDNN_RETURN_IF_ERROR(
        bench_.errors().AddTo(device_, task_.problem, known));
    std::set<Algorithm> inexact;
    for (const MeasuredPoint& point : ucudnn::LeaveOutInexact(
             task_.problem.precision, task_.goal.max_error, &known)) {
      inexact.insert(point.algorithm);
    }
    const auto is_inexact = [&](const Algorithm& algorithm) {
      return inexact.contains(algorithm);
    };
    std::erase_if(*choices, [&](const SizedAlgorithm& size) {
      return is_inexact(size.algorithm);
    });
    for (const auto& entry : largest) {
      const SizedAlgorithm& size = entry.second;
      const bool was_looked_at =
          std::ranges::any_of(task_.known, [&](const MeasuredPoint& point) {
            return point.algorithm == size.algorithm && point.error_ppt > 0;
          });
      if (is_inexact(size.algorithm) && !was_looked_at) {
        inexact_.push_back(size);
      }
    }
    std::erase_if(points_, [&](const auto& point) {
      return is_inexact(point.first.algorithm);
    });
    return {};
  }

  bool IsSettled(const SizedAlgorithm& size) const {
    return settled_.contains(size) ||
           points_.at(size).repeats >= thorough_.min_repeats;
  }

  std::vector<MeasuredPoint> Points() const {
    std::vector<MeasuredPoint> points;
    points.reserve(points_.size());
    for (const auto& [size, point] : points_) {
      points.push_back(point);
      // A slow algorithm has one repeat even if it was measured thoroughly.
      if (IsSettled(size)) {
        points.back().repeats = std::max(point.repeats, thorough_.min_repeats);
      }
    }
    return points;
  }

  // The points of other algorithms at the same batch.
  std::vector<MeasuredPoint> RivalsOf(const SizedAlgorithm& size) const {
    std::vector<MeasuredPoint> rivals;
    for (const auto& [known, point] : points_) {
      if (known.algorithm == size.algorithm) continue;
      MeasuredPoint& rival = rivals.emplace_back(point);
      rival.batch = size.batch;
      rival.time =
          Nanoseconds(std::llround(static_cast<double>(point.time.count()) *
                                   static_cast<double>(size.batch.count()) /
                                   static_cast<double>(point.batch.count())));
    }
    return rivals;
  }

  Status AddError(MeasuredPoint* point) {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto errors,
        bench_.errors().Of(device_, task_.problem, point->batch,
                           std::span(&point->algorithm, 1)));
    point->error_ppt = errors[0];
    return {};
  }

  Status Measure(const SizedAlgorithm& size, bool quick) {
    if (!quick) settled_.insert(size);
    if (quick && hopeless_.contains(size.algorithm)) return {};
    if (stop_.stop_requested()) return Fail(Code::kCancelled, "asked to stop");
    const Candidate candidate = catalogue_.CandidateOf(size);
    Result<MeasuredPoint> point = bench_.MeasureAlgorithm(
        task_.problem, size.batch, candidate, quick ? quick_ : thorough_,
        RivalsOf(size), stop_);
    if (point) {
      UCUDNN_RETURN_IF_ERROR(AddError(&*point));
      points_.insert_or_assign(size, *point);
      if (const auto before = std::ranges::find(measured_, size, SizeOf);
          before != measured_.end()) {
        *before = *point;
      } else {
        measured_.push_back(*point);
      }
      if (sink_) sink_({*point});
    } else if (point.error().code == Code::kCancelled ||
               point.error().code == Code::kDataLoss) {
      return tl::unexpected<Error>(point.error());
    } else if (quick) {
      failed_.insert(size);
      if (point.error().code == Code::kDeadlineExceeded) {
        hopeless_.insert(size.algorithm);
      } else if (!failure_) {
        failure_ = point.error();
      }
    }
    if (progress_) progress_(candidate, point);
    return {};
  }

  Device& device_;
  Catalogue catalogue_;
  MeasureBench& bench_;
  const CampaignTask& task_;
  MeasureOptions quick_;
  MeasureOptions thorough_;
  const std::stop_token& stop_;
  const MeasureProgress& progress_;
  const PointsSink& sink_;
  std::map<SizedAlgorithm, MeasuredPoint> points_;  // known and measured
  std::vector<MeasuredPoint> measured_;
  std::set<SizedAlgorithm> settled_;  // measured thoroughly
  std::set<SizedAlgorithm> failed_;
  std::set<Algorithm> hopeless_;
  std::vector<SizedAlgorithm> inexact_;  // to be looked at
  std::optional<Error> failure_;         // the first
};

}  // namespace

std::vector<Bytes> LimitsOf(const TaskGoal& goal, Bytes max_workspace) {
  if (goal.limit) return {*goal.limit};
  // Two in each octave.
  std::vector<Bytes> limits = {Bytes()};
  for (Bytes octave = 1_MiB; octave < max_workspace; octave = octave * 2) {
    limits.push_back(octave);
    const Bytes between(octave.count() + octave.count() * 2 / 5);
    if (between < max_workspace) limits.push_back(between);
  }
  limits.push_back(max_workspace);
  return limits;
}

Result<std::vector<MeasuredPoint>> RunCampaign(
    Device& device, MeasureBench& bench, const CampaignTask& task,
    MeasureOptions options, const std::stop_token& stop,
    const MeasureProgress& progress, const PointsSink& sink) {
  options.max_workspace = task.max_workspace;
  if (task.cross_check) {
    UCUDNN_ASSIGN_OR_RETURN(
        MeasuredPoint point,
        bench.MeasureAlgorithm(task.problem, task.batch, *task.cross_check,
                               options, {}, stop));
    return std::vector<MeasuredPoint>{std::move(point)};
  }
  if (task.goal.adaptive) {
    return AdaptiveCampaign(device, bench, task, options, stop, progress, sink)
        .Run();
  }
  UCUDNN_ASSIGN_OR_RETURN(
      auto points, bench.Measure(task.problem, task.batch, options, stop,
                                 [&](const Candidate& candidate,
                                     const Result<MeasuredPoint>& point) {
                                   if (progress) progress(candidate, point);
                                   if (point && sink) sink({*point});
                                 }));
  UCUDNN_RETURN_IF_ERROR(bench.errors().AddTo(device, task.problem, points));
  return points;
}

}  // namespace ucudnn
