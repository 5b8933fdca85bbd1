#include "client/dropin/planner/point_sources.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <stop_token>
#include <utility>

#include "base/accuracy.h"
#include "device/measure/campaign.h"
#include "device/measure/measure.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {
namespace {

// Few repeats, because a program waits; but long ones, because an idle GPU is
// slow at first.
MeasureOptions QuickMeasureOptions() {
  MeasureOptions options;
  options.max_repeats = 7;
  options.target_spread = 0.02;
  options.group_time = std::chrono::milliseconds(10);
  return options;
}

// Null if it was not measured.
const MeasuredPoint* FindPoint(const ProblemMeasurements& known,
                               BatchSize batch, const Algorithm& algorithm) {
  const auto find = [&](const std::vector<MeasuredPoint>& points) {
    const auto found =
        std::ranges::find_if(points, [&](const MeasuredPoint& p) {
          return p.batch == batch && p.algorithm == algorithm;
        });
    return found == points.end() ? nullptr : &*found;
  };
  if (const auto all = known.batches.find(batch); all != known.batches.end()) {
    if (const MeasuredPoint* point = find(all->second.points)) return point;
  }
  return find(known.singles);
}

// Adds a point, or replaces the earlier measurement of the same algorithm and
// size.
void AddSingle(MeasuredPoint point, ProblemMeasurements* into) {
  const auto same =
      std::ranges::find_if(into->singles, [&](const MeasuredPoint& p) {
        return p.batch == point.batch && p.algorithm == point.algorithm;
      });
  if (same != into->singles.end()) {
    *same = std::move(point);
  } else {
    into->singles.push_back(std::move(point));
  }
}

// Adds what `from` has and `into` lacks.
void Merge(ProblemMeasurements from, ProblemMeasurements* into) {
  for (auto& [batch, measured] : from.batches) {
    MeasuredBatch& mine = into->batches[batch];
    if (mine.max_workspace <= measured.max_workspace) {
      mine = std::move(measured);
    }
  }
  for (MeasuredPoint& point : from.singles) AddSingle(std::move(point), into);
  into->queries.merge(std::move(from.queries));
}

// Whether this device lists the algorithm that somebody else measured.
bool Lists(const std::vector<Candidate>& candidates,
           const MeasuredPoint& point) {
  const auto listed =
      std::ranges::find(candidates, point.algorithm, &Candidate::algorithm);
  return listed != candidates.end() && listed->workspace <= point.workspace;
}

}  // namespace

PointSources::PointSources(LocalOptions options)
    : options_(std::move(options)),
      files_(options_.settings.cache_dir, options_.kind) {}

const MeasuredPoint* PointSources::Find(const ConvProblem& problem,
                                        BatchSize batch,
                                        const Algorithm& algorithm) const {
  const auto known = known_.find(problem);
  return known == known_.end() ? nullptr
                               : FindPoint(known->second, batch, algorithm);
}

bool PointSources::Admits(const ConvProblem& problem, BatchSize batch,
                          const Algorithm& algorithm, const Bench& bench) {
  if (options_.settings.deterministic &&
      !IsDeterministic(problem.op, algorithm)) {
    return false;
  }
  const Result<Device*> device = bench();
  return device &&
         errors_.Admit(**device, problem, batch, kDefaultMaxError, algorithm)
             .value_or(false);
}

bool PointSources::IsEnough(const ProblemMeasurements& known,
                            const AdaptiveQuery& need) const {
  if (!IsAdaptive()) return Missing(known, need).empty();
  return std::ranges::any_of(known.queries, [&](const AdaptiveQuery& query) {
    return query.batch == need.batch &&
           (query.each_below ? query.limit >= need.limit
                             : query.limit == need.limit && !need.each_below);
  });
}

std::vector<BatchSize> PointSources::Missing(const ProblemMeasurements& known,
                                             const AdaptiveQuery& need) const {
  std::vector<BatchSize> missing;
  // Largest size first: without it, the others are useless.
  for (std::int64_t n = need.batch.count(); n > 0; --n) {
    const BatchSize size(n);
    if (PolicyAdmits(options_.settings.policy, size, need.batch) &&
        !IsComplete(known, size, need.limit)) {
      missing.push_back(size);
    }
  }
  return missing;
}

bool PointSources::IsComplete(const ProblemMeasurements& known, BatchSize size,
                              Bytes limit) const {
  const auto found = known.batches.find(size);
  return found != known.batches.end() &&
         found->second.max_workspace >= Reach(limit);
}

Bytes PointSources::Reach(Bytes limit) const {
  return std::max(limit, options_.settings.MostWorkspace());
}

Status PointSources::AddErrors(const ConvProblem& problem, const Bench& bench,
                               ProblemMeasurements* known) {
  std::vector<MeasuredPoint*> points;
  for (auto& [size, measured] : known->batches) {
    for (MeasuredPoint& point : measured.points) points.push_back(&point);
  }
  for (MeasuredPoint& point : known->singles) points.push_back(&point);
  if (std::ranges::all_of(points,
                          [](auto* point) { return point->error_ppt > 0; })) {
    return {};
  }
  UCUDNN_ASSIGN_OR_RETURN(Device * device, bench());
  std::vector<MeasuredPoint> values;
  for (const MeasuredPoint* point : points) values.push_back(*point);
  UCUDNN_RETURN_IF_ERROR(errors_.AddTo(*device, problem, values));
  for (std::size_t i = 0; i < points.size(); ++i) *points[i] = values[i];
  return {};
}

Status PointSources::AskFor(const ConvProblem& problem,
                            const AdaptiveQuery& need, const Bench& bench,
                            ProblemMeasurements* known) {
  const BatchSize batch = need.batch;
  const auto answer = options_.ask(problem);
  if (!answer) {
    Note(answer.error().message);
    return {};
  }
  std::map<BatchSize, std::vector<MeasuredPoint>> by_size;
  for (const MeasuredPoint& point : answer->points) {
    if (point.batch <= batch &&
        PolicyAdmits(options_.settings.policy, point.batch, batch)) {
      by_size[point.batch].push_back(point);
    }
  }
  for (auto& [size, points] : by_size) {
    const auto complete = answer->complete.find(size);
    const bool is_complete = complete != answer->complete.end() &&
                             complete->second >= Reach(need.limit);
    if (IsComplete(*known, size, need.limit) || (!is_complete && !IsAdaptive()))
      continue;
    UCUDNN_ASSIGN_OR_RETURN(Device * device, bench());
    const auto listed = device->ListAlgorithms(problem, size);
    if (!listed) continue;  // measuring will report why
    std::erase_if(points, [&](const MeasuredPoint& point) {
      return !Lists(*listed, point);
    });
    if (points.empty()) continue;
    if (is_complete) {
      known->batches[size] = {complete->second, std::move(points)};
      continue;
    }
    for (MeasuredPoint& point : points) AddSingle(std::move(point), known);
  }
  return {};
}

void PointSources::Note(const std::string& text) const {
  if (options_.settings.verbose) {
    std::fprintf(stderr, "ucudnn: %s\n", text.c_str());
  }
}

Status PointSources::Measure(const ConvProblem& problem,
                             const AdaptiveQuery& need, const Bench& bench,
                             ProblemMeasurements* known) {
  UCUDNN_ASSIGN_OR_RETURN(Device * device, bench());
  MeasureOptions measure = QuickMeasureOptions();
  if (IsAdaptive()) {
    return Explore(*device, problem, need, measure, known);
  }
  measure.max_workspace = Reach(need.limit);
  MeasureBench measuring(*device);
  for (const BatchSize size : Missing(*known, need)) {
    auto points = measuring.Measure(problem, size, measure, std::stop_token(),
                                    MeasureProgress());
    if (!points) {
      // Without the whole batch there is nothing to compare with, but a smaller
      // size that cannot run must not keep the others from being used.
      if (size == need.batch || points.error().code == Code::kDataLoss) {
        return tl::unexpected<Error>(std::move(points).error());
      }
      points = std::vector<MeasuredPoint>();
    }
    known->batches[size] = {measure.max_workspace, *std::move(points)};
  }
  return {};
}

Status PointSources::Explore(Device& device, const ConvProblem& problem,
                             const AdaptiveQuery& need,
                             const MeasureOptions& options,
                             ProblemMeasurements* known) {
  TaskGoal goal = {true, need.limit};
  if (need.each_below) goal.limit.reset();
  const CampaignTask task{.problem = problem,
                          .batch = need.batch,
                          .goal = goal,
                          .max_workspace = need.limit,
                          .known = AdmittedPoints(problem, *known, need.batch),
                          .deterministic = options_.settings.deterministic};
  MeasureBench measuring(device);
  UCUDNN_ASSIGN_OR_RETURN(
      auto points,
      RunCampaign(device, measuring, task, options, std::stop_token(), {}, {}));
  for (MeasuredPoint& point : points) AddSingle(std::move(point), known);
  known->queries.insert(need);
  return {};
}

std::vector<MeasuredPoint> PointSources::AdmittedPoints(
    const ConvProblem& problem, const ProblemMeasurements& known,
    BatchSize batch) const {
  std::vector<MeasuredPoint> points;
  for (const auto& [size, measured] : known.batches) {
    points.insert(points.end(), measured.points.begin(), measured.points.end());
  }
  for (const MeasuredPoint& point : known.singles) {
    if (!known.batches.contains(point.batch)) points.push_back(point);
  }
  // An algorithm is as inexact as at the batches that are not used.
  SpreadErrors(&points);
  std::erase_if(points, [&](const MeasuredPoint& point) {
    const bool admitted =
        known.batches.contains(point.batch)
            ? PolicyAdmits(options_.settings.policy, point.batch, batch)
            : IsAdaptive();
    return point.batch > batch || !admitted ||
           (options_.settings.deterministic &&
            !IsDeterministic(problem.op, point.algorithm));
  });
  LeaveOutInexact(problem.precision, kDefaultMaxError, &points);
  return points;
}

Result<std::vector<MeasuredPoint>> PointSources::Below(
    const ConvProblem& problem, const AdaptiveQuery& need, const Bench& bench) {
  ProblemMeasurements& known = known_[problem];
  if (!IsEnough(known, need)) Merge(files_.Read(problem), &known);
  if (!IsEnough(known, need)) {
    UCUDNN_ASSIGN_OR_RETURN(const auto lock,
                            files_.Acquire(problem, options_.patience));
    // The previous holder of the lock may have measured the same.
    Merge(files_.Read(problem), &known);
    if (!IsEnough(known, need)) {
      if (options_.ask) {
        UCUDNN_RETURN_IF_ERROR(AskFor(problem, need, bench, &known));
      }
      if (!IsEnough(known, need)) {
        UCUDNN_RETURN_IF_ERROR(Measure(problem, need, bench, &known));
      }
      UCUDNN_RETURN_IF_ERROR(AddErrors(problem, bench, &known));
      // If it cannot be saved, the next process measures it again.
      (void)files_.Write(problem, known);
    }
  }
  return AdmittedPoints(problem, known, need.batch);
}

Result<MeasuredPoint> PointSources::Point(const ConvProblem& problem,
                                          BatchSize batch,
                                          const Algorithm& algorithm,
                                          const Bench& bench) {
  ProblemMeasurements& known = known_[problem];
  if (const auto* point = FindPoint(known, batch, algorithm)) return *point;
  UCUDNN_ASSIGN_OR_RETURN(const auto lock,
                          files_.Acquire(problem, options_.patience));
  Merge(files_.Read(problem), &known);
  if (const auto* point = FindPoint(known, batch, algorithm)) return *point;
  UCUDNN_ASSIGN_OR_RETURN(Device * device, bench());
  UCUDNN_ASSIGN_OR_RETURN(const auto listed,
                          device->ListAlgorithms(problem, batch));
  const auto candidate =
      std::ranges::find(listed, algorithm, &Candidate::algorithm);
  if (candidate == listed.end()) {
    return Fail(Code::kNotFound, "{} {} is not listed", algorithm.name,
                algorithm.math);
  }
  MeasureBench measuring(*device);
  UCUDNN_ASSIGN_OR_RETURN(
      MeasuredPoint point,
      measuring.MeasureAlgorithm(problem, batch, *candidate,
                                 QuickMeasureOptions(), {}, std::stop_token()));
  UCUDNN_RETURN_IF_ERROR(errors_.AddTo(*device, problem, std::span(&point, 1)));
  AddSingle(point, &known);
  (void)files_.Write(problem, known);
  return point;
}

}  // namespace ucudnn
