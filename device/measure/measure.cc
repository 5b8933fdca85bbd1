#include "device/measure/measure.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/median.h"

namespace ucudnn {
namespace {

Status Check(const MeasureOptions& o) {
  if (o.min_repeats < 1 || o.max_repeats < o.min_repeats) {
    return Fail(Code::kInvalidArgument,
                "{} to {} repeats; at least 1, and a minimum not above the "
                "maximum, are accepted",
                o.min_repeats, o.max_repeats);
  }
  if (!(o.target_spread >= 0) || !(o.hopeless_factor >= 1) ||
      o.time_limit <= Nanoseconds(0) || o.group_time < Nanoseconds(0) ||
      o.max_workspace < Bytes() || !(o.outlier >= 0) || o.max_outliers < 0 ||
      !(o.cold >= 0)) {
    return Fail(Code::kInvalidArgument,
                "target_spread {}, hopeless_factor {}, time_limit {} ns, "
                "group_time {} ns, max_workspace {}, outlier {}, max_outliers "
                "{}, cold {}: not negative, 1 or more, positive, and not "
                "negative are accepted",
                o.target_spread, o.hopeless_factor, o.time_limit.count(),
                o.group_time.count(), o.max_workspace.count(), o.outlier,
                o.max_outliers, o.cold);
  }
  return {};
}

Nanoseconds Times(Nanoseconds time, double factor) {
  const double product = static_cast<double>(time.count()) * factor;
  constexpr double kMost = 4e18;
  return Nanoseconds(static_cast<std::int64_t>(std::min(product, kMost)));
}

// The bytes of images that runs cycle over.
Bytes RoundFor(const Device& device, const MeasureOptions& options) {
  const Bytes most = std::min(1_GiB, device.info().kind.memory / 32);
  if (options.cold == 0 || device.cache() == Bytes()) return Bytes();
  const double asked =
      options.cold * static_cast<double>(device.cache().count());
  // Compared before the cast, which could overflow.
  return asked < static_cast<double>(most.count())
             ? Bytes(static_cast<std::int64_t>(asked))
             : most;
}

bool IsShortOfMemory(const Status& status) {
  return !status && status.error().code == Code::kResourceExhausted;
}

bool IsSettled(const std::vector<Nanoseconds>& times, double target) {
  const MedianAndSpread summary = MedianAndSpreadOf(times);
  return summary.spread <= Times(summary.median, target);
}

// The repeat farthest from the others, if it is too far. A single repeat is
// compared with the runs before it, the shortest of which took `once`.
std::vector<Nanoseconds>::iterator FindOutlier(std::vector<Nanoseconds>& times,
                                               Nanoseconds once, double far) {
  constexpr double kSpreads = 5.0;
  if (times.size() == 1) {
    return times[0] > Times(once, 1 + far) ? times.begin() : times.end();
  }
  const MedianAndSpread summary = MedianAndSpreadOf(times);
  const auto off = [&](Nanoseconds time) {
    return std::chrono::abs(time - summary.median);
  };
  const auto farthest = std::ranges::max_element(times, {}, off);
  const Nanoseconds allowed =
      std::max(Times(summary.median, far), Times(summary.spread, kSpreads));
  return off(*farthest) > allowed ? farthest : times.end();
}

}  // namespace

std::string MethodText(const Device& device, const MeasureOptions& options) {
  std::string text;
  if (RoundFor(device, options) > Bytes()) text += "cold operands, ";
  if (device.can_capture()) text += "replayed, two streams, ";
  return text + "both betas";
}

struct MeasureBench::Target {
  const ConvProblem& problem;
  BatchSize batch;
  const MeasureOptions& options;
  const std::stop_token& stop;
  std::vector<MeasuredPoint> points;  // so far

  // The fastest point with at most this workspace.
  std::optional<Nanoseconds> BestWithin(Bytes workspace) const {
    std::optional<Nanoseconds> best;
    for (const MeasuredPoint& p : points) {
      if (p.workspace <= workspace)
        best = std::min(best.value_or(p.time), p.time);
    }
    return best;
  }

  // kDeadlineExceeded for two branches that cannot be the fastest: they take at
  // least half of the algorithm's time in one.
  Status CheckBranches(const Candidate& candidate) const {
    const auto each = EachBranch(candidate.algorithm);
    const auto rival = BestWithin(candidate.workspace);
    if (!each || !rival) return {};
    const auto one =
        std::ranges::find(points, *each, &MeasuredPoint::algorithm);
    if (one == points.end() || one->time / 2 <= *rival) return {};
    return Fail(Code::kDeadlineExceeded,
                "dropped: takes at least {} in two branches, and another one "
                "{}",
                HumanTime(one->time / 2), HumanTime(*rival));
  }
};

struct MeasureBench::Ready {
  std::unique_ptr<Convolution> convolution;
  BatchSize batch;
  float beta = 0;
  bool replays = false;  // rather than enqueueing runs one by one
  // The last group that was replayed; its memory serves the next one.
  std::unique_ptr<CapturedWork> captured = nullptr;
};

struct MeasureBench::Timing {
  std::vector<Nanoseconds> times;  // of the repeats, rising
  std::vector<Nanoseconds> host;   // to enqueue a run; empty if unknown
  int outliers = 0;
};

Status MeasureBench::PrepareOperands(const Target& target) {
  Bytes round = RoundFor(device_, target.options);
  Status prepared = operands_.Prepare(target.problem, target.batch, round);
  // Other programs, such as a job, may use the device's memory too.
  while (IsShortOfMemory(prepared) && round > Bytes()) {
    workspace_.Reset();
    round = round > 1_MiB ? round / 2 : Bytes();
    prepared = operands_.Prepare(target.problem, target.batch, round);
  }
  return prepared;
}

Status MeasureBench::MakeRoom(const Target& target, Bytes size) {
  // There are no operands if the last attempt to make room failed.
  if (operands_.RoundOf(target.batch) < 1) {
    UCUDNN_RETURN_IF_ERROR(PrepareOperands(target));
  }
  auto grown = GrowBuffer(device_, size, &workspace_);
  if (!grown && grown.error().code == Code::kResourceExhausted &&
      operands_.RoundOf(target.batch) > 1) {
    // Measuring with the same operands is better than not measuring.
    operands_.Release();
    UCUDNN_RETURN_IF_ERROR(
        operands_.Prepare(target.problem, target.batch, Bytes()));
    grown = GrowBuffer(device_, size, &workspace_);
  }
  if (!grown) return tl::unexpected<Error>(std::move(grown).error());
  return {};
}

Result<MeasureBench::Ready> MeasureBench::MakeReady(
    const Target& target, const ConvProblem& problem, BatchSize batch,
    const Candidate& candidate) {
  Ready ready;
  UCUDNN_ASSIGN_OR_RETURN(ready.convolution,
                          device_.Prepare(problem, batch, candidate.algorithm));
  const Bytes workspace = ready.convolution->workspace();
  if (workspace > candidate.workspace) {
    return Fail(Code::kResourceExhausted,
                "needs a workspace of {} bytes, more than {}",
                workspace.count(), candidate.workspace.count());
  }
  UCUDNN_RETURN_IF_ERROR(MakeRoom(target, workspace));
  ready.batch = batch;
  ready.beta = target.options.beta.value_or(0.0F);
  return ready;
}

Status MeasureBench::Enqueue(Ready& ready, std::int64_t runs) {
  for (std::int64_t i = 0; i < runs; ++i) {
    ConvArgs args = operands_.Next(ready.batch);
    args.beta = ready.beta;
    UCUDNN_RETURN_IF_ERROR(ready.convolution->Run(
        args, workspace_.data(), ready.convolution->workspace()));
  }
  return {};
}

Result<Nanoseconds> MeasureBench::RunFirst(Ready& ready) {
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time,
                          device_.Time([&] { return Enqueue(ready, 1); }));
  spent_ += time;
  return time;
}

Result<Device::EnqueuedTime> MeasureBench::Run(Ready& ready,
                                               std::int64_t runs) {
  UCUDNN_ASSIGN_OR_RETURN(
      const Device::EnqueuedTime all,
      device_.TimeEnqueued([&] { return Enqueue(ready, runs); }));
  spent_ += all.device;
  return Device::EnqueuedTime{all.device / runs, all.host / runs};
}

Result<Nanoseconds> MeasureBench::Replay(Ready& ready, std::int64_t runs) {
  // Captured anew each time: with the operands of the last time, the device's
  // cache may hold them.
  UCUDNN_ASSIGN_OR_RETURN(ready.captured,
                          device_.Capture([&] { return Enqueue(ready, runs); },
                                          std::move(ready.captured)));
  UCUDNN_ASSIGN_OR_RETURN(
      const Device::EnqueuedTime time,
      device_.TimeEnqueued([&] { return ready.captured->Enqueue(); }));
  spent_ += time.device;
  return time.device / runs;
}

Result<Device::EnqueuedTime> MeasureBench::RunGroup(Ready& ready,
                                                    std::int64_t runs) {
  if (ready.replays) {
    const Result<Nanoseconds> time = Replay(ready, runs);
    if (time) return Device::EnqueuedTime{.device = *time};
    if (time.error().code == Code::kDataLoss) {
      return tl::unexpected<Error>(time.error());
    }
    ready.replays = false;  // not every algorithm can be captured
  }
  return Run(ready, runs);
}

Result<Nanoseconds> MeasureBench::EstimateFromOneFilter(
    const Target& target, const Candidate& candidate, Nanoseconds allowed) {
  // Its operands are parts of the whole problem's.
  ConvProblem part = target.problem;
  part.geometry.filters = part.geometry.groups;
  const double parts = static_cast<double>(target.batch.count()) *
                       static_cast<double>(target.problem.geometry.filters) /
                       static_cast<double>(part.geometry.filters);
  if (parts <= 1) return Nanoseconds(0);
  auto ready = MakeReady(target, part, BatchSize(1), candidate);
  if (!ready) return Nanoseconds(0);  // nothing to estimate from
  UCUDNN_ASSIGN_OR_RETURN(Nanoseconds time, RunFirst(*ready));
  if (time <= allowed && Times(time, parts) > allowed) {
    // The first run may have loaded code, so time a second one.
    UCUDNN_ASSIGN_OR_RETURN(const auto second, Run(*ready, 1));
    time = std::min(time, second.device);
  }
  return Times(time, parts);
}

Result<Nanoseconds> MeasureBench::Estimate(const Target& target,
                                           const Candidate& candidate,
                                           Nanoseconds allowed) {
  if (candidate.last_resort) {
    return EstimateFromOneFilter(target, candidate, allowed);
  }
  constexpr std::int64_t kFew = 4;
  const std::int64_t batch = target.batch.count();
  if (batch <= kFew) return Nanoseconds(0);
  const std::int64_t fewest = EachBranch(candidate.algorithm) ? 2 : 1;
  Nanoseconds least{0};
  for (const std::int64_t n : {fewest, kFew}) {
    auto ready = MakeReady(target, target.problem, BatchSize(n), candidate);
    // It does not take so few images: there is nothing to estimate from.
    if (!ready) return Nanoseconds(0);
    UCUDNN_ASSIGN_OR_RETURN(Nanoseconds time, RunFirst(*ready));
    // The whole takes no longer than its parts, apart from the warm-up.
    if (Times(time, double(batch) / double(n)) <= allowed) {
      return Nanoseconds(0);
    }
    UCUDNN_ASSIGN_OR_RETURN(const auto second, Run(*ready, 1));
    time = std::min(time, second.device);
    if (Times(time, double(batch) / double(n)) <= allowed) {
      return Nanoseconds(0);
    }
    if (time > allowed) return time;
    if (n == kFew) {
      // Extrapolates the marginal time per image.
      const Nanoseconds more =
          std::max(time - least, Nanoseconds(0)) / (kFew - fewest);
      return time + more * (batch - kFew);
    }
    least = time;
  }
  return Nanoseconds(0);
}

Result<MeasureBench::Timing> MeasureBench::TimeRuns(const Target& target,
                                                    Ready& ready) {
  const MeasureOptions& options = target.options;
  UCUDNN_RETURN_IF_ERROR(operands_.ClearFilterGradient());
  UCUDNN_ASSIGN_OR_RETURN(Nanoseconds once, RunFirst(ready));
  Nanoseconds spent = once;
  const auto best = target.BestWithin(Bytes::Max());
  const auto is_slow = [&] {
    return once > options.time_limit / 2 ||
           (best && once > Times(*best, options.hopeless_factor));
  };
  if (once <= options.time_limit / 8 &&
      (is_slow() || once < 2 * options.group_time)) {
    // The first run may have loaded code, so time a second one.
    UCUDNN_ASSIGN_OR_RETURN(const auto second, Run(ready, 1));
    spent += second.device;
    once = std::min(once, second.device);
  }
  std::vector<Nanoseconds> times;
  std::vector<Nanoseconds> host;
  // Such a long run needs no warm-up, and one is enough where the result hardly
  // matters.
  const bool slow = is_slow();
  if (slow) times.push_back(once);
  // More kernels than fit into a stream's queue (some 1000) cannot be enqueued
  // ahead; some algorithms are ten or more.
  constexpr std::int64_t kLargestGroup = 32;
  const std::int64_t group = std::clamp<std::int64_t>(
      options.group_time / std::max(once, Nanoseconds(1)), 1, kLargestGroup);
  // Long runs gain nothing by it.
  ready.replays = device_.can_capture() && once < options.group_time;
  if (!slow && ready.replays) {
    // How long the host takes where the plan cannot be replayed.
    UCUDNN_ASSIGN_OR_RETURN(const auto time, Run(ready, group));
    spent += time.device * group;
    if (time.host > Nanoseconds(0)) host.push_back(time.host);
  }
  int outliers = 0;
  while (!slow) {
    const int done = static_cast<int>(times.size());
    if (done >= 1 && spent >= options.time_limit) break;
    if (done >= options.max_repeats ||
        (done >= options.min_repeats &&
         IsSettled(times, options.target_spread))) {
      const auto outlier = FindOutlier(times, once, options.outlier);
      if (outlier == times.end() || outliers == options.max_outliers) break;
      times.erase(outlier);
      ++outliers;
    }
    if (target.stop.stop_requested()) {
      return Fail(Code::kCancelled, "asked to stop");
    }
    UCUDNN_ASSIGN_OR_RETURN(const auto time, RunGroup(ready, group));
    times.push_back(time.device);
    spent += time.device * group;
    if (time.host > Nanoseconds(0)) host.push_back(time.host);
  }
  std::sort(times.begin(), times.end());
  return Timing{std::move(times), std::move(host), outliers};
}

Result<MeasuredPoint> MeasureBench::MeasureOne(const Target& target,
                                               const Candidate& candidate) {
  const MeasureOptions& options = target.options;
  if (candidate.workspace > options.max_workspace) {
    return Fail(Code::kResourceExhausted,
                "needs a workspace of {} bytes, more than the {} allowed",
                candidate.workspace.count(), options.max_workspace.count());
  }
  Nanoseconds allowed = options.time_limit;
  const auto rival = target.BestWithin(candidate.workspace);
  if (rival) {
    allowed = std::min(allowed, Times(*rival, options.hopeless_factor));
  }
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds estimate,
                          Estimate(target, candidate, allowed));
  if (estimate > allowed) {
    return Fail(Code::kDeadlineExceeded,
                "dropped: takes about {}, more than {}", HumanTime(estimate),
                HumanTime(allowed));
  }
  if (target.stop.stop_requested()) {
    return Fail(Code::kCancelled, "asked to stop");
  }

  UCUDNN_ASSIGN_OR_RETURN(
      Ready ready, MakeReady(target, target.problem, target.batch, candidate));
  UCUDNN_ASSIGN_OR_RETURN(const Timing runs, TimeRuns(target, ready));
  MeasuredPoint point = {target.batch, candidate.algorithm,
                         candidate.workspace};
  const MedianAndSpread summary = MedianAndSpreadOf(runs.times);
  point.time = summary.median;
  point.spread = summary.spread;
  point.repeats = static_cast<int>(runs.times.size());
  point.min = runs.times.front();
  point.p90 = runs.times[(runs.times.size() * 9 + 9) / 10 - 1];
  if (!runs.host.empty()) point.enqueue = MedianAndSpreadOf(runs.host).median;
  point.outliers = runs.outliers;
  if (target.problem.op == ConvOp::kBackwardFilter && !options.beta) {
    ready.beta = 1.0F;
    UCUDNN_ASSIGN_OR_RETURN(const Timing adding, TimeRuns(target, ready));
    const MedianAndSpread added = MedianAndSpreadOf(adding.times);
    point.adding = added.median;
    point.spread = std::max(point.spread, added.spread);
  }
  return point;
}

Result<std::vector<MeasuredPoint>> MeasureBench::Measure(
    const ConvProblem& problem, BatchSize batch, const MeasureOptions& options,
    const std::stop_token& stop, const MeasureProgress& progress) {
  UCUDNN_RETURN_IF_ERROR(Check(options));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Candidate> candidates,
                          device_.ListAlgorithms(problem, batch));
  Target target{problem, batch, options, stop, {}};
  UCUDNN_RETURN_IF_ERROR(PrepareOperands(target));
  const bool another_fits =
      std::ranges::any_of(candidates, [&](const Candidate& c) {
        return !c.last_resort && c.workspace <= options.max_workspace;
      });
  std::optional<Error> failure;
  for (const Candidate& candidate : candidates) {
    if (stop.stop_requested()) return Fail(Code::kCancelled, "asked to stop");
    if (candidate.last_resort && another_fits) {
      if (progress) {
        progress(candidate,
                 Fail(Code::kDeadlineExceeded,
                      "not measured: a last resort, and another one fits"));
      }
      continue;
    }
    // Only among points of this batch; rivals of MeasureAlgorithm may be
    // estimates from others.
    const Status useful = target.CheckBranches(candidate);
    Result<MeasuredPoint> point = useful
                                      ? MeasureOne(target, candidate)
                                      : tl::unexpected<Error>(useful.error());
    if (!point && point.error().code == Code::kCancelled) {
      return tl::unexpected<Error>(std::move(point).error());
    }
    if (progress) progress(candidate, point);
    if (point) {
      target.points.push_back(*std::move(point));
      continue;
    }
    // A failed algorithm is one thing, a broken device another.
    UCUDNN_RETURN_IF_ERROR(device_.Synchronize());
    const Code code = point.error().code;
    if (code != Code::kResourceExhausted && code != Code::kDeadlineExceeded &&
        !failure) {
      failure = std::move(point).error();
    }
  }
  if (target.points.empty() && failure) {
    return Within(
        fmt::format("measuring {}, batch {}", ToString(problem), batch.count()),
        *std::move(failure));
  }
  return std::move(target.points);
}

Result<MeasuredPoint> MeasureBench::MeasureAlgorithm(
    const ConvProblem& problem, BatchSize batch, const Candidate& candidate,
    const MeasureOptions& options, std::vector<MeasuredPoint> rivals,
    const std::stop_token& stop) {
  UCUDNN_RETURN_IF_ERROR(Check(options));
  const Target target{problem, batch, options, stop, std::move(rivals)};
  UCUDNN_RETURN_IF_ERROR(PrepareOperands(target));
  Result<MeasuredPoint> point = MeasureOne(target, candidate);
  // A failed algorithm is one thing, a broken device another.
  if (!point) UCUDNN_RETURN_IF_ERROR(device_.Synchronize());
  return point;
}

Result<Nanoseconds> MeasureBench::TimeUnderLoad(const ConvProblem& problem,
                                                BatchSize batch,
                                                const Candidate& candidate,
                                                Nanoseconds load,
                                                const std::stop_token& stop) {
  MeasureOptions options;
  options.cold = 0;
  const Target target{problem, batch, options, stop, {}};
  UCUDNN_RETURN_IF_ERROR(PrepareOperands(target));
  UCUDNN_ASSIGN_OR_RETURN(Ready ready,
                          MakeReady(target, problem, batch, candidate));
  UCUDNN_RETURN_IF_ERROR(RunFirst(ready));
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds once, RunFirst(ready));
  // So long that waiting between groups does not let the device rest.
  static constexpr Nanoseconds kGroup = std::chrono::milliseconds(20);
  const auto in_group = [](Nanoseconds time) {
    return std::max<std::int64_t>(1, kGroup / std::max(time, Nanoseconds(1)));
  };
  // Enqueueing a short run takes the host longer than it takes the device, and
  // a capture of more runs than this much memory.
  constexpr std::int64_t kMostCaptured = 256;
  const std::int64_t runs = std::min(in_group(once), kMostCaptured);
  const auto enqueue = [&] { return Enqueue(ready, runs); };
  auto captured = device_.Capture(enqueue);
  if (!captured && captured.error().code == Code::kDataLoss) {
    return tl::unexpected<Error>(std::move(captured).error());
  }
  const auto repeat = [&](std::int64_t groups) {
    return device_.Time([&]() -> Status {
      for (std::int64_t i = 0; i < groups; ++i) {
        UCUDNN_RETURN_IF_ERROR(captured ? (*captured)->Enqueue() : enqueue());
      }
      return {};
    });
  };
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds first, repeat(1));
  spent_ += first;
  const std::int64_t groups = in_group(first);
  std::vector<Nanoseconds> times;
  for (Nanoseconds passed{0}; passed < load;) {
    if (stop.stop_requested()) return Fail(Code::kCancelled, "asked to stop");
    if (passed < load / 10 * 9) times.clear();
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, repeat(groups));
    spent_ += time;
    passed += std::max(time, Nanoseconds(1));
    times.push_back(time / (runs * groups));
  }
  if (times.empty()) return once;
  return MedianAndSpreadOf(std::move(times)).median;
}

}  // namespace ucudnn
