#include "tests/gpu/figures/network_figure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <tuple>
#include <utility>

#include "client/executor.h"
#include "device/cudnn/graph_name.h"
#include "device/measure.h"
#include "solver/wr.h"

namespace ucudnn::figures {
namespace {

using Clock = std::chrono::steady_clock;

// Operands large enough for every kernel of a plan.
struct Operands {
  std::array<DeviceBuffer, 3> buffers;
  ConvArgs args() const {
    return {buffers[0].data(), buffers[1].data(), buffers[2].data()};
  }
};

Result<Operands> Allocate(Device& device, const WorkspacePlan& plan) {
  std::int64_t most = 1;
  for (const KernelPlan& kernel : plan.kernels) {
    const ConvGeometry& g = kernel.problem->geometry;
    const std::int64_t images =
        plan.batch.count() * std::max(g.input_elements(), g.output_elements());
    most = std::max(most, std::max(images, g.filter_elements()) *
                              ElementBytes(kernel.problem->precision));
  }
  Operands operands;
  for (DeviceBuffer& buffer : operands.buffers) {
    UCUDNN_ASSIGN_OR_RETURN(buffer, device.Allocate(Bytes(most)));
    // A moderate number in every precision.
    UCUDNN_RETURN_IF_ERROR(device.Fill(buffer.data(), 0x3c, Bytes(most)));
  }
  return operands;
}

Status RunPlan(Device& device, const WorkspacePlan& plan, LimitFigure* figure) {
  UCUDNN_ASSIGN_OR_RETURN(const auto executor, Executor::Create(device, plan));
  if (!executor->fallbacks().empty()) {
    figure->note = executor->fallbacks().front().why.message;
  }
  UCUDNN_ASSIGN_OR_RETURN(const Operands operands, Allocate(device, plan));
  Nanoseconds enqueued{0};
  const auto all = [&] {
    const auto begun = Clock::now();
    Status ran = executor->RunAll([&](std::size_t) { return operands.args(); });
    enqueued = Clock::now() - begun;
    return ran;
  };
  constexpr int kWarmUp = 2;
  constexpr int kRepeats = 11;
  std::vector<Nanoseconds> times;
  std::vector<Nanoseconds> enqueues;
  for (int i = -kWarmUp; i < kRepeats; ++i) {
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, device.Time(all));
    if (i < 0) continue;
    times.push_back(time);
    enqueues.push_back(enqueued);
  }
  figure->measured = Summarize(times).median;
  figure->enqueued = Summarize(enqueues).median;
  // Behind work that takes the device longer than enqueueing takes the host.
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
  figure->device_alone = Summarize(alone).median;
  return {};
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

Result<NetworkFigure> MeasureNetwork(Device& device, PointSource& points,
                                     const Job& job) {
  NetworkFigure figure;
  const auto begun = Clock::now();
  const std::vector<Kernel> kernels =
      KernelsOf(job.network, job.precision, job.layout);
  for (const Kernel& kernel : kernels) {
    UCUDNN_ASSIGN_OR_RETURN(const auto* measured,
                            points.PointsOf(kernel.problem, job.batch));
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
  for (const Bytes limit : job.limits) {
    LimitFigure& at = figure.limits.emplace_back();
    at.limit = limit;
    at.undivided = Sum(figure.profile, job.batch, limit, false);
    at.undivided_legacy = Sum(figure.profile, job.batch, limit, true);
    auto plan =
        SolveWr(figure.profile, {job.batch, limit, BatchPolicy::kPowerOfTwo});
    if (!plan) {
      at.note = plan.error().message;
      continue;
    }
    at.planned = plan->total_time;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      plan->kernels[i].problem = kernels[i].problem;
      at.arena = std::max(at.arena, plan->kernels[i].workspace);
    }
    if (std::find(job.run_limits.begin(), job.run_limits.end(), limit) ==
        job.run_limits.end()) {
      continue;
    }
    if (const Status ran = RunPlan(device, *plan, &at); !ran) {
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
                      {"arena_bytes", at.arena.count()},
                      {"undivided_us", Us(at.undivided)},
                      {"undivided_legacy_us", Us(at.undivided_legacy)},
                      {"measured_us", Us(at.measured)},
                      {"enqueued_us", Us(at.enqueued)},
                      {"device_alone_us", Us(at.device_alone)},
                      {"note", at.note}});
  }
  return json;
}

}  // namespace ucudnn::figures
