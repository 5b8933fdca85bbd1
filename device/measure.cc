#include "device/measure.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/median.h"

namespace ucudnn {
namespace {

// Elements of a pattern that is uploaded over and over: prime, so that it does
// not repeat in step with any tensor's rows.
constexpr std::size_t kPatternElements = 262'139;

// Multiples of 1/8 in [-1, 1] without 0: exact in every precision, so that no
// arithmetic is spared and no result overflows.
std::vector<unsigned char> RandomPattern(Precision precision) {
  const auto element = static_cast<std::size_t>(ElementBytes(precision));
  std::vector<unsigned char> bytes(kPatternElements * element);
  std::uint64_t state = 0x9e3779b97f4a7c15U;
  for (std::size_t i = 0; i < kPatternElements; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const auto step = static_cast<int>(state >> 60);  // 0 to 15
    const float value =
        static_cast<float>(step < 8 ? step - 8 : step - 7) / 8.0F;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    if (element == 2) {
      if (precision == Precision::kBf16) {
        bits >>= 16;
      } else {  // half: five bits of exponent, ten of mantissa
        const std::uint32_t exponent = ((bits >> 23) & 0xff) - 127 + 15;
        bits =
            ((bits >> 16) & 0x8000) | (exponent << 10) | ((bits >> 13) & 0x3ff);
      }
    }
    std::memcpy(&bytes[i * element], &bits, element);  // little-endian
  }
  return bytes;
}

Status FillWithPattern(Device& device, const DeviceBuffer& buffer,
                       const std::vector<unsigned char>& pattern) {
  const auto length = static_cast<std::int64_t>(pattern.size());
  for (std::int64_t at = 0; at < buffer.size().count(); at += length) {
    const Bytes part(std::min(length, buffer.size().count() - at));
    UCUDNN_RETURN_IF_ERROR(device.Upload(
        static_cast<unsigned char*>(buffer.data()) + at, pattern.data(), part));
  }
  return {};
}

// Makes `buffer` at least `size` large; whether it is another one now.
Result<bool> Grow(Device& device, Bytes size, DeviceBuffer* buffer) {
  if (buffer->size() >= size && buffer->data() != nullptr) return false;
  buffer->Reset();  // before, not beside, its successor
  UCUDNN_ASSIGN_OR_RETURN(*buffer, device.Allocate(size));
  return true;
}

Status Check(const MeasureOptions& o) {
  if (o.min_repeats < 1 || o.max_repeats < o.min_repeats) {
    return Fail(Code::kInvalidArgument,
                "{} to {} repeats; at least 1, and no more at least than at "
                "most, are accepted",
                o.min_repeats, o.max_repeats);
  }
  if (!(o.target_spread >= 0) || !(o.hopeless_factor >= 1) ||
      o.time_limit <= Nanoseconds(0) || o.group_time < Nanoseconds(0) ||
      o.max_workspace < Bytes() || !(o.outlier >= 0) || o.max_outliers < 0) {
    return Fail(Code::kInvalidArgument,
                "target_spread {}, hopeless_factor {}, time_limit {} ns, "
                "group_time {} ns, max_workspace {}, outlier {}, max_outliers "
                "{}: not negative, 1 or more, positive, and not negative are "
                "accepted",
                o.target_spread, o.hopeless_factor, o.time_limit.count(),
                o.group_time.count(), o.max_workspace.count(), o.outlier,
                o.max_outliers);
  }
  return {};
}

Nanoseconds Times(Nanoseconds time, double factor) {
  const double product = static_cast<double>(time.count()) * factor;
  constexpr double kMost = 4e18;
  return Nanoseconds(static_cast<std::int64_t>(std::min(product, kMost)));
}

bool IsSettled(const std::vector<Nanoseconds>& times, double target) {
  const Middle middle = MiddleOf(times);
  return middle.spread <= Times(middle.median, target);
}

// The repeat farthest off the others, if it is too far; of a single one it is
// the runs before that tell, the least of which took `once`: it should take no
// longer than they did.
std::vector<Nanoseconds>::iterator FindOutlier(std::vector<Nanoseconds>& times,
                                               Nanoseconds once, double far) {
  constexpr double kSpreads = 5.0;
  if (times.size() == 1) {
    return times[0] > Times(once, 1 + far) ? times.begin() : times.end();
  }
  const Middle middle = MiddleOf(times);
  const auto off = [&](Nanoseconds time) {
    return std::chrono::abs(time - middle.median);
  };
  const auto farthest = std::ranges::max_element(times, {}, off);
  const Nanoseconds allowed =
      std::max(Times(middle.median, far), Times(middle.spread, kSpreads));
  return off(*farthest) > allowed ? farthest : times.end();
}

}  // namespace

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
};

struct MeasureBench::Ready {
  std::unique_ptr<Convolution> convolution;
  ConvArgs args;
};

Result<MeasureBench::Ready> MeasureBench::MakeReady(const ConvProblem& problem,
                                                    BatchSize batch,
                                                    const Algorithm& algorithm,
                                                    Bytes most) {
  Ready ready;
  UCUDNN_ASSIGN_OR_RETURN(ready.convolution,
                          device_.Prepare(problem, batch, algorithm));
  if (ready.convolution->workspace() > most) {
    return Fail(Code::kResourceExhausted,
                "needs a workspace of {} bytes, more than {}",
                ready.convolution->workspace().count(), most.count());
  }
  UCUDNN_RETURN_IF_ERROR(
      Grow(device_, ready.convolution->workspace(), &workspace_));
  ready.args = {a_.data(), b_.data(), out_.data(), 1.0F,
                problem.op == ConvOp::kBackwardFilter ? 1.0F : 0.0F};
  return ready;
}

Status MeasureBench::Enqueue(Ready& ready) {
  return ready.convolution->Run(ready.args, workspace_.data(),
                                ready.convolution->workspace());
}

Result<Nanoseconds> MeasureBench::RunFirst(Ready& ready) {
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time,
                          device_.Time([&] { return Enqueue(ready); }));
  spent_ += time;
  return time;
}

Result<Nanoseconds> MeasureBench::Run(Ready& ready, std::int64_t runs) {
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds all,
                          device_.TimeEnqueued([&]() -> Status {
                            for (std::int64_t i = 0; i < runs; ++i) {
                              UCUDNN_RETURN_IF_ERROR(Enqueue(ready));
                            }
                            return {};
                          }));
  spent_ += all;
  return all / runs;
}

Status MeasureBench::PrepareOperands(const ConvProblem& problem,
                                     BatchSize batch) {
  const ConvGeometry& g = problem.geometry;
  const std::int64_t element = ElementBytes(problem.precision);
  const Bytes input(batch.count() * g.input_elements() * element);
  const Bytes output(batch.count() * g.output_elements() * element);
  const Bytes filter(g.filter_elements() * element);
  const bool forward = problem.op == ConvOp::kForward;
  const bool to_filter = problem.op == ConvOp::kBackwardFilter;
  UCUDNN_ASSIGN_OR_RETURN(
      const bool new_a,
      Grow(device_, forward || to_filter ? input : output, &a_));
  UCUDNN_ASSIGN_OR_RETURN(const bool new_b,
                          Grow(device_, to_filter ? output : filter, &b_));
  UCUDNN_RETURN_IF_ERROR(
      Grow(device_, to_filter ? filter : (forward ? output : input), &out_));
  const bool other_precision = problem.precision != filled_with_;
  if (new_a || new_b || other_precision) {
    const std::vector<unsigned char> pattern = RandomPattern(problem.precision);
    if (new_a || other_precision) {
      UCUDNN_RETURN_IF_ERROR(FillWithPattern(device_, a_, pattern));
    }
    if (new_b || other_precision) {
      UCUDNN_RETURN_IF_ERROR(FillWithPattern(device_, b_, pattern));
    }
    filled_with_ = problem.precision;
  }
  return {};
}

Result<Nanoseconds> MeasureBench::Estimate(const Target& target,
                                           const Candidate& candidate,
                                           Nanoseconds allowed) {
  constexpr std::int64_t kFew = 4;
  const std::int64_t batch = target.batch.count();
  if (batch <= kFew) return Nanoseconds(0);
  Nanoseconds one{0};
  for (const std::int64_t n : {std::int64_t{1}, kFew}) {
    auto ready = MakeReady(target.problem, BatchSize(n), candidate.algorithm,
                           candidate.workspace);
    // Not for so few images: there is nothing to estimate from.
    if (!ready) return Nanoseconds(0);
    UCUDNN_ASSIGN_OR_RETURN(Nanoseconds time, RunFirst(*ready));
    // The whole takes no longer than its parts, but for the warm-up.
    if (Times(time, double(batch) / double(n)) <= allowed) {
      return Nanoseconds(0);
    }
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds again, Run(*ready, 1));
    time = std::min(time, again);
    if (Times(time, double(batch) / double(n)) <= allowed) {
      return Nanoseconds(0);
    }
    if (time > allowed) return time;
    if (n == kFew) {
      // Each image more takes what each of the few took more than the first.
      const Nanoseconds more =
          std::max(time - one, Nanoseconds(0)) / (kFew - 1);
      return time + more * (batch - kFew);
    }
    one = time;
  }
  return Nanoseconds(0);
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
      Ready ready, MakeReady(target.problem, target.batch, candidate.algorithm,
                             candidate.workspace));
  if (target.problem.op == ConvOp::kBackwardFilter) {
    UCUDNN_RETURN_IF_ERROR(device_.Fill(out_.data(), 0, out_.size()));
  }
  UCUDNN_ASSIGN_OR_RETURN(Nanoseconds once, RunFirst(ready));
  Nanoseconds spent = once;
  const auto best = target.BestWithin(Bytes::Max());
  const auto is_slow = [&] {
    return once > options.time_limit / 2 ||
           (best && once > Times(*best, options.hopeless_factor));
  };
  if (once <= options.time_limit / 8 &&
      (is_slow() || once < 2 * options.group_time)) {
    // The first run may have loaded code; a second one tells.
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds second, Run(ready, 1));
    spent += second;
    once = std::min(once, second);
  }
  std::vector<Nanoseconds> times;
  // A run that long needs no warming up, and is enough where the result can
  // hardly matter.
  const bool slow = is_slow();
  if (slow) times.push_back(once);
  // More kernels than fit into a stream's queue (some 1000) cannot be enqueued
  // ahead; some algorithms are ten or more.
  constexpr std::int64_t kLargestGroup = 32;
  const std::int64_t group = std::clamp<std::int64_t>(
      options.group_time / std::max(once, Nanoseconds(1)), 1, kLargestGroup);
  int again = 0;
  while (!slow) {
    const int done = static_cast<int>(times.size());
    if (done >= 1 && spent >= options.time_limit) break;
    if (done >= options.max_repeats ||
        (done >= options.min_repeats &&
         IsSettled(times, options.target_spread))) {
      const auto outlier = FindOutlier(times, once, options.outlier);
      if (outlier == times.end() || again == options.max_outliers) break;
      times.erase(outlier);
      ++again;
    }
    if (target.stop.stop_requested()) {
      return Fail(Code::kCancelled, "asked to stop");
    }
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, Run(ready, group));
    times.push_back(time);
    spent += time * group;
  }
  const int repeats = static_cast<int>(times.size());
  std::sort(times.begin(), times.end());
  const Nanoseconds min = times.front();
  const Nanoseconds p90 = times[(times.size() * 9 + 9) / 10 - 1];
  const Middle middle = MiddleOf(std::move(times));
  return MeasuredPoint{target.batch,
                       candidate.algorithm,
                       candidate.workspace,
                       middle.median,
                       middle.spread,
                       repeats,
                       min,
                       p90};
}

Result<std::vector<MeasuredPoint>> MeasureBench::Measure(
    const ConvProblem& problem, BatchSize batch, const MeasureOptions& options,
    const std::stop_token& stop, const MeasureProgress& progress) {
  UCUDNN_RETURN_IF_ERROR(Check(options));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<Candidate> candidates,
                          device_.ListAlgorithms(problem, batch));
  UCUDNN_RETURN_IF_ERROR(PrepareOperands(problem, batch));
  Target target{problem, batch, options, stop, {}};
  std::optional<Error> failure;
  for (const Candidate& candidate : candidates) {
    if (stop.stop_requested()) return Fail(Code::kCancelled, "asked to stop");
    Result<MeasuredPoint> point = MeasureOne(target, candidate);
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
  UCUDNN_RETURN_IF_ERROR(PrepareOperands(problem, batch));
  const Target target{problem, batch, options, stop, std::move(rivals)};
  Result<MeasuredPoint> point = MeasureOne(target, candidate);
  // A failed algorithm is one thing, a broken device another.
  if (!point) UCUDNN_RETURN_IF_ERROR(device_.Synchronize());
  return point;
}

Result<std::vector<MeasuredPoint>> MeasureProblem(
    Device& device, const ConvProblem& problem, BatchSize batch,
    const MeasureOptions& options, const std::stop_token& stop,
    const MeasureProgress& progress) {
  MeasureBench bench(device);
  return bench.Measure(problem, batch, options, stop, progress);
}

}  // namespace ucudnn
