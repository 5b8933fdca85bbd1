#include "tests/gpu/figures/network_figure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "base/median.h"
#include "client/executor/executor.h"
#include "device/cudnn/driver/monitor.h"
#include "device/cudnn/graph/name.h"
#include "device/elements.h"
#include "device/reference_element.h"
#include "device/rounding.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn::figures {
namespace {

using Clock = std::chrono::steady_clock;

// Operands for every kernel of a network, as large as the largest; `a` and `b`
// hold repeating patterns.
struct Operands {
  DeviceBuffer a;
  DeviceBuffer b;
  DeviceBuffer out;
  std::vector<float> a_pattern;
  std::vector<float> b_pattern;
  ConvArgs args() const { return {a.data(), b.data(), out.data()}; }
};

Result<Operands> Allocate(Device& device, const Job& job) {
  std::int64_t most = 1;
  for (const ConvLayer& layer : job.network.layers) {
    const ConvGeometry& g = layer.geometry;
    const std::int64_t images =
        job.batch.count() * std::max(g.input_elements(), g.output_elements());
    most = std::max({most, images, g.filter_elements()});
  }
  const Precision precision = job.precision;
  const Bytes size(most * ElementBytes(precision));
  constexpr std::int64_t kPattern = 4'194'301;  // a prime
  Operands operands;
  UCUDNN_ASSIGN_OR_RETURN(operands.a, device.Allocate(size));
  UCUDNN_ASSIGN_OR_RETURN(operands.b, device.Allocate(size));
  UCUDNN_ASSIGN_OR_RETURN(operands.out, device.Allocate(size));
  const std::string a = RandomElements(kPattern, precision, 1);
  const std::string b = RandomElements(kPattern, precision, 2);
  UCUDNN_RETURN_IF_ERROR(UploadRepeated(device, operands.a, a));
  UCUDNN_RETURN_IF_ERROR(UploadRepeated(device, operands.b, b));
  operands.a_pattern = DecodeElements(a, precision);
  operands.b_pattern = DecodeElements(b, precision);
  return operands;
}

// Compares some elements of each distinct kernel's result with sums in double.
Result<double> LargestError(Device& device, Executor& executor,
                            const WorkspacePlan& plan,
                            const Operands& operands) {
  double largest = 0;
  std::set<ConvProblem> seen;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const ConvProblem& problem = *plan.kernels[k].problem;
    if (!seen.insert(problem).second) continue;
    const std::int64_t count = ElementsOf(problem, plan.batch).out;
    const std::int64_t size = ElementBytes(problem.precision);
    // NaN, so that elements that are not written show.
    UCUDNN_RETURN_IF_ERROR(
        device.Fill(operands.out.data(), 0xff, Bytes(count * size)));
    UCUDNN_RETURN_IF_ERROR(executor.Run(k, operands.args()));
    constexpr std::int64_t kSamples = 8;
    double worst = 0;
    double scale = 0;
    for (std::int64_t i = 0; i < kSamples; ++i) {
      const std::int64_t index = (count - 1) * i / (kSamples - 1);
      std::string bytes(static_cast<std::size_t>(size), '\0');
      UCUDNN_RETURN_IF_ERROR(device.Download(
          bytes.data(),
          static_cast<const char*>(operands.out.data()) + index * size,
          Bytes(size)));
      const auto expected = ComputeElement(
          problem, plan.batch, operands.a_pattern, operands.b_pattern, index);
      const double error = std::fabs(
          DecodeElements(bytes, problem.precision)[0] - expected.value);
      scale = std::max(scale, expected.magnitude);
      if (!(error <= worst)) worst = error;  // true for NaN, which stays
      if (std::isnan(worst)) break;
    }
    double tolerance = ToleranceOf(problem.precision);
    for (const MicroBatch& micro : plan.kernels[k].micro_batches) {
      tolerance =
          std::max(tolerance, ToleranceOf(micro.algorithm, problem.geometry));
    }
    worst /= scale * tolerance;
    if (!(worst <= largest)) largest = worst;
    if (std::isnan(largest)) break;
  }
  return largest;
}

// "1980 MHz", and throttle reasons, while `work` runs.
Result<std::string> ClocksDuring(Device& device,
                                 const std::function<Status()>& work) {
  UCUDNN_RETURN_IF_ERROR(work());
  const auto state = ReadGpuState(device.info().id);
  UCUDNN_RETURN_IF_ERROR(device.Synchronize());
  if (!state) return state.error().message;
  const std::string slowed_by = ThrottleText(state->throttle_reasons);
  return fmt::format("{} MHz{}{}", state->sm_clock_mhz,
                     slowed_by.empty() ? "" : ", slowed by ", slowed_by);
}

// The time of kernel `index` by itself, divided as planned; `planned`
// determines how often one timing runs it.
Result<Nanoseconds> TimeKernel(Device& device, Executor& executor,
                               std::size_t index, Nanoseconds planned,
                               const ConvArgs& args) {
  std::int64_t steps = 0;  // enqueued per timing
  for (const MicroBatch& m : executor.kernel(index).micro_batches) {
    steps += m.count;
  }
  constexpr Nanoseconds kGroup = std::chrono::milliseconds(3);
  constexpr std::int64_t kMostSteps = 32;
  const std::int64_t runs =
      std::clamp<std::int64_t>(kGroup / std::max(planned, Nanoseconds(1)), 1,
                               std::max<std::int64_t>(kMostSteps / steps, 1));
  std::vector<Nanoseconds> times;
  constexpr int kRepeats = 3;
  for (int i = 0; i < kRepeats; ++i) {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto time, device.TimeEnqueued([&]() -> Status {
          for (std::int64_t n = 0; n < runs; ++n) {
            UCUDNN_RETURN_IF_ERROR(executor.Run(index, args));
          }
          return {};
        }));
    times.push_back(time.device / runs);
  }
  return MedianAndSpreadOf(times).median;
}

// Runs the plan for `job.load`; each round counts that begins in the last tenth
// of it.
Status RunUnderLoad(Device& device, const Job& job,
                    const std::function<Status()>& all, LimitFigure* figure) {
  std::vector<Nanoseconds> times;
  const auto begun = Clock::now();
  for (Nanoseconds passed{0}; passed < job.load;
       passed = Clock::now() - begun) {
    if (passed < job.load * 9 / 10) times.clear();
    UCUDNN_ASSIGN_OR_RETURN(times.emplace_back(), device.Time(all));
  }
  figure->under_load = MedianAndSpreadOf(times).median;
  UCUDNN_ASSIGN_OR_RETURN(figure->clocks_under_load, ClocksDuring(device, all));
  return {};
}

// Operands are allocated when the first plan is run.
Status RunPlan(Device& device, const Job& job, const WorkspacePlan& plan,
               std::optional<Operands>* operands, bool first,
               LimitFigure* figure) {
  UCUDNN_ASSIGN_OR_RETURN(const auto executor, Executor::Create(device, plan));
  if (!executor->fallbacks().empty()) {
    figure->note = executor->fallbacks().front().why.message;
  }
  if (!*operands) {
    UCUDNN_ASSIGN_OR_RETURN(*operands, Allocate(device, job));
  }
  Nanoseconds enqueued{0};
  const auto all = [&] {
    const auto begun = Clock::now();
    Status ran =
        executor->RunAll([&](std::size_t) { return (*operands)->args(); });
    enqueued = Clock::now() - begun;
    return ran;
  };
  constexpr int kWarmUp = 2;
  constexpr int kRepeats = 11;
  std::vector<Nanoseconds> times;
  std::vector<Nanoseconds> enqueues;
  for (int i = -kWarmUp; i < kRepeats; ++i) {
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, device.Time(all));
    figure->rounds.push_back(time);
    if (i < 0) continue;
    times.push_back(time);
    enqueues.push_back(enqueued);
  }
  figure->measured = MedianAndSpreadOf(times).median;
  figure->enqueued = MedianAndSpreadOf(enqueues).median;
  UCUDNN_ASSIGN_OR_RETURN(figure->clocks, ClocksDuring(device, all));
  for (std::size_t k = 0; job.time_kernels && k < figure->kernels.size(); ++k) {
    KernelFigure& kernel = figure->kernels[k];
    UCUDNN_ASSIGN_OR_RETURN(
        kernel.measured,
        TimeKernel(device, *executor, k, kernel.planned, (*operands)->args()));
  }
  // Enqueue behind work that takes the device longer than enqueueing takes the
  // host: TimeEnqueued cannot hold this much at once.
  UCUDNN_ASSIGN_OR_RETURN(DeviceBuffer ballast, device.Allocate(2_GiB));
  const auto fill = [&] {
    return device.Fill(ballast.data(), 0, ballast.size());
  };
  UCUDNN_RETURN_IF_ERROR(device.Time(fill));
  UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds one, device.Time(fill));
  std::vector<Nanoseconds> alone;
  for (int i = 0; i < 5; ++i) {
    for (Nanoseconds ahead{0}; ahead < *figure->enqueued * 3 / 2;
         ahead += one) {
      UCUDNN_RETURN_IF_ERROR(fill());
    }
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, device.Time(all));
    alone.push_back(time);
  }
  figure->device_alone = MedianAndSpreadOf(alone).median;
  if (first && job.load > Nanoseconds(0)) {
    UCUDNN_RETURN_IF_ERROR(RunUnderLoad(device, job, all, figure));
  }
  if (first) {
    UCUDNN_ASSIGN_OR_RETURN(figure->error,
                            LargestError(device, *executor, plan, **operands));
  }
  return {};
}

// For kernels in the plan's order.
std::vector<KernelFigure> DetailsOf(const Profile& profile,
                                    const WorkspacePlan& plan) {
  std::vector<KernelFigure> details;
  for (std::size_t i = 0; i < plan.kernels.size(); ++i) {
    const KernelPlan& kernel = plan.kernels[i];
    double least = std::numeric_limits<double>::infinity();  // ns per image
    for (const MeasuredPoint& p : profile.kernels[i].points) {
      if (p.workspace > plan.workspace_limit) continue;
      least = std::min(least, static_cast<double>(p.time.count()) /
                                  static_cast<double>(p.batch.count()));
    }
    details.push_back({kernel.time,
                       Nanoseconds(std::llround(
                           least * static_cast<double>(plan.batch.count()))),
                       kernel.workspace, kernel.micro_batches, std::nullopt});
  }
  return details;
}

std::optional<Nanoseconds> Sum(const Profile& profile, BatchSize batch,
                               Bytes limit, bool legacy_only) {
  Nanoseconds sum{0};
  for (const KernelProfile& kernel : profile.kernels) {
    const auto time = Undivided(kernel.points, batch, limit, legacy_only);
    if (!time) return std::nullopt;
    sum += *time;
  }
  return sum;
}

nlohmann::ordered_json Us(const std::optional<Nanoseconds>& time) {
  if (!time) return nullptr;
  return Microseconds(*time);
}

}  // namespace

std::optional<Nanoseconds> Undivided(const std::vector<MeasuredPoint>& points,
                                     BatchSize batch, Bytes limit,
                                     bool legacy_only) {
  std::optional<Nanoseconds> best;
  for (const MeasuredPoint& p : points) {
    if (p.batch != batch || p.workspace > limit) continue;
    if (legacy_only && cudnn::IsEngineName(p.algorithm.name)) continue;
    best = std::min(best.value_or(p.time), p.time);
  }
  return best;
}

std::string Describe(const MicroBatch& micro_batch) {
  return fmt::format("{} x {} {}", micro_batch.batch.count(), micro_batch.count,
                     micro_batch.algorithm.name);
}

std::vector<PointSource::Wanted> WantedFor(const Job& job) {
  std::vector<PointSource::Wanted> wanted;
  for (const Kernel& kernel :
       KernelsOf(job.network, job.precision, job.layout)) {
    wanted.push_back({kernel.problem, job.batch});
  }
  return wanted;
}

Result<NetworkFigure> MeasureNetwork(Device& device, PointSource& points,
                                     const Job& job) {
  NetworkFigure figure;
  const auto begun = Clock::now();
  const std::vector<Kernel> kernels =
      KernelsOf(job.network, job.precision, job.layout);
  points.Survey(WantedFor(job));
  for (const Kernel& kernel : kernels) {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto* measured,
        points.PointsOf(kernel.problem, job.batch, job.fit_limits));
    KernelProfile profile;
    profile.id = {ToString(device.info().kind),
                  job.network.name,
                  kernel.layer,
                  kernel.op,
                  job.precision,
                  job.layout};
    profile.points = *measured;
    std::sort(profile.points.begin(), profile.points.end(),
              [](const MeasuredPoint& x, const MeasuredPoint& y) {
                return std::tie(x.batch, x.algorithm, x.workspace) <
                       std::tie(y.batch, y.algorithm, y.workspace);
              });
    figure.profile.kernels.push_back(std::move(profile));
  }
  figure.seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  const auto is_among = [](Bytes limit, const std::vector<Bytes>& limits) {
    return std::find(limits.begin(), limits.end(), limit) != limits.end();
  };
  std::optional<Operands> operands;
  for (const Bytes limit : job.limits) {
    LimitFigure& at = figure.limits.emplace_back();
    at.limit = limit;
    at.undivided = Sum(figure.profile, job.batch, limit, false);
    at.undivided_legacy = Sum(figure.profile, job.batch, limit, true);
    const auto powers =
        SolveWr(figure.profile, {job.batch, limit, BatchPolicy::kPowerOfTwo});
    if (powers) at.powers_of_two = powers->total_time;
    auto plan = SolveWr(figure.profile, {job.batch, limit, BatchPolicy::kAll});
    if (!plan) {
      at.note = plan.error().message;
      continue;
    }
    at.planned = plan->total_time;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      plan->kernels[i].problem = kernels[i].problem;
      at.arena = std::max(at.arena, plan->kernels[i].workspace);
    }
    at.planned_under_load = Nanoseconds(
        std::llround(static_cast<double>(plan->total_time.count()) *
                     job.device.SlowdownUnderLoad(
                         job.precision, Operations(*plan), plan->total_time)));
    if (is_among(limit, job.detail_limits)) {
      at.kernels = DetailsOf(figure.profile, *plan);
    }
    if (!is_among(limit, job.run_limits)) continue;
    if (const Status ran = RunPlan(device, job, *plan, &operands,
                                   limit == job.run_limits.front(), &at);
        !ran) {
      at.note = ran.error().message;
      UCUDNN_RETURN_IF_ERROR(device.Synchronize());
    }
  }
  return figure;
}

nlohmann::ordered_json ToJson(const Job& job, const NetworkFigure& figure) {
  nlohmann::ordered_json json = {{"network", job.network.name},
                                 {"batch", job.batch.count()},
                                 {"precision", Name(job.precision)},
                                 {"layout", Name(job.layout)},
                                 {"kernels", figure.profile.kernels.size()},
                                 {"benchmark_seconds", figure.seconds}};
  auto& limits = json["limits"] = nlohmann::ordered_json::array();
  for (const LimitFigure& at : figure.limits) {
    limits.push_back({{"limit_bytes", at.limit.count()},
                      {"planned_us", Us(at.planned)},
                      {"powers_of_two_us", Us(at.powers_of_two)},
                      {"arena_bytes", at.arena.count()},
                      {"undivided_us", Us(at.undivided)},
                      {"undivided_legacy_us", Us(at.undivided_legacy)},
                      {"measured_us", Us(at.measured)},
                      {"enqueued_us", Us(at.enqueued)},
                      {"device_alone_us", Us(at.device_alone)},
                      {"planned_under_load_us", Us(at.planned_under_load)},
                      {"under_load_us", Us(at.under_load)},
                      {"clocks_under_load", at.clocks_under_load},
                      {"error", at.error ? nlohmann::ordered_json(*at.error)
                                         : nlohmann::ordered_json(nullptr)},
                      {"note", at.note}});
    if (!at.rounds.empty()) {
      auto& rounds = limits.back()["rounds_us"];
      for (const Nanoseconds time : at.rounds) {
        rounds.push_back(Microseconds(time));
      }
      limits.back()["clocks"] = at.clocks;
    }
    if (at.kernels.empty()) continue;
    auto& kernels = limits.back()["kernels"] = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < at.kernels.size(); ++i) {
      const KernelFigure& kernel = at.kernels[i];
      const KernelId& id = figure.profile.kernels[i].id;
      nlohmann::ordered_json texts = nlohmann::ordered_json::array();
      for (const MicroBatch& m : kernel.micro_batches) {
        texts.push_back(Describe(m));
      }
      kernels.push_back({{"layer", id.layer},
                         {"op", Name(id.op)},
                         {"planned_us", Microseconds(kernel.planned)},
                         {"bound_us", Microseconds(kernel.bound)},
                         {"measured_us", Us(kernel.measured)},
                         {"workspace_bytes", kernel.workspace.count()},
                         {"micro_batches", std::move(texts)}});
    }
  }
  return json;
}

}  // namespace ucudnn::figures
