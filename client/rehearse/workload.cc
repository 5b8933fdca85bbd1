#include "client/rehearse/workload.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stop_token>
#include <utility>

#include "base/median.h"
#include "client/executor/undivided.h"
#include "device/elements.h"
#include "device/measure/measure.h"
#include "device/reference_element.h"
#include "device/rounding.h"

namespace ucudnn::rehearse {
namespace {

constexpr int kWarmUp = 3;

bool UsesLargeWinograd(const KernelPlan& kernel) {
  if (!kernel.problem) return false;
  return std::any_of(kernel.micro_batches.begin(), kernel.micro_batches.end(),
                     [&](const MicroBatch& micro) {
                       return IsLargeWinograd(micro.algorithm,
                                              kernel.problem->geometry);
                     });
}

// The larger error; NaN if either is NaN.
double Worse(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::nan("");
  return std::max(a, b);
}

double RelativeError(const std::vector<float>& values,
                     const std::vector<float>& expected) {
  double difference = 0;
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    difference =
        Worse(difference, std::abs(double{values[i]} - double{expected[i]}));
    largest = Worse(largest, std::abs(double{expected[i]}));
  }
  return largest == 0 ? difference : difference / largest;
}

// The plan's kernels undivided, as the job would run them without it.
Result<std::vector<Kernel>> KernelsOfPlan(const WorkspacePlan& plan) {
  std::vector<Kernel> kernels;
  for (const KernelPlan& kernel : plan.kernels) {
    if (!kernel.problem) {
      return Fail(Code::kInvalidArgument,
                  "{} {}: the plan does not tell its problem", kernel.layer,
                  Name(kernel.op));
    }
    kernels.push_back({kernel.layer, kernel.op, *kernel.problem});
  }
  return kernels;
}

}  // namespace

double Errors::largest() const {
  double worst = Worse(0, large_winograd);
  for (const double error : by_op) worst = Worse(worst, error);
  return worst;
}

bool Errors::Within(double tolerance) const {
  constexpr double kLargeWinograd = 30;
  // Written so that NaN is not within tolerance.
  return std::all_of(by_op.begin(), by_op.end(),
                     [&](double e) { return e <= tolerance; }) &&
         large_winograd <= kLargeWinograd * tolerance;
}

double Tolerance(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return 1e-3;
    case Precision::kTf32:
      return 1e-2;
    case Precision::kPseudoHalf:
    case Precision::kBf16:
      return 3e-2;
    case Precision::kTrueHalf:
      return 1e-1;
  }
  return 0;
}

Result<std::unique_ptr<Workload>> Workload::Create(Device& device,
                                                   const WorkspacePlan& plan,
                                                   Bytes graph_memory) {
  std::unique_ptr<Workload> workload(new Workload(device));
  workload->plan_ = plan;
  UCUDNN_ASSIGN_OR_RETURN(
      workload->executor_,
      Executor::Create(device, plan, {.graph_memory = graph_memory}));
  UCUDNN_RETURN_IF_ERROR(workload->AllocateBuffers());
  return workload;
}

Status Workload::AllocateBuffers() {
  OperandElements largest;
  Precision precision = Precision::kFp32;
  for (const KernelPlan& kernel : plan_.kernels) {
    const OperandElements sizes = ElementsOf(*kernel.problem, plan_.batch);
    precision = kernel.problem->precision;
    largest.a = std::max(largest.a, sizes.a);
    largest.b = std::max(largest.b, sizes.b);
    largest.out = std::max(largest.out, sizes.out);
  }
  if (plan_.kernels.empty()) return {};
  const std::int64_t element = ElementBytes(precision);
  std::uint64_t seed = 1;
  for (const auto& [buffer, count] :
       {std::pair{&a_, largest.a}, std::pair{&b_, largest.b}}) {
    const Bytes size(count * element);
    UCUDNN_ASSIGN_OR_RETURN(*buffer, device_.Allocate(size));
    const std::string data = RandomElements(count, precision, seed++);
    UCUDNN_RETURN_IF_ERROR(device_.Upload(buffer->data(), data.data(), size));
  }
  UCUDNN_ASSIGN_OR_RETURN(out_, device_.Allocate(Bytes(largest.out * element)));
  return {};
}

ConvArgs Workload::Args() const {
  return {.a = a_.data(), .b = b_.data(), .out = out_.data()};
}

Result<std::string> Workload::Run(Executor& executor, std::size_t kernel,
                                  Bytes size) {
  // All bits set is NaN in every precision, so elements that are not written
  // show.
  UCUDNN_RETURN_IF_ERROR(device_.Fill(out_.data(), 0xff, size));
  UCUDNN_RETURN_IF_ERROR(executor.Run(kernel, Args()));
  UCUDNN_RETURN_IF_ERROR(device_.Synchronize());
  std::string bytes(static_cast<std::size_t>(size.count()), '\0');
  UCUDNN_RETURN_IF_ERROR(device_.Download(bytes.data(), out_.data(), size));
  return bytes;
}

Result<Errors> Workload::Check(const Progress& progress) {
  UCUDNN_ASSIGN_OR_RETURN(const auto kernels, KernelsOfPlan(plan_));
  auto undivided_plan =
      UndividedPlan(device_, kernels, plan_.batch, plan_.workspace_limit);
  if (!undivided_plan) {
    // No undivided algorithm fits into the limit; for the comparison, exceed
    // it.
    undivided_plan = UndividedPlan(device_, kernels, plan_.batch, Bytes::Max());
  }
  UCUDNN_ASSIGN_OR_RETURN(const WorkspacePlan whole, std::move(undivided_plan));
  Errors errors;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    // One kernel at a time, so that only its workspace is allocated.
    WorkspacePlan one = whole;
    one.kernels = {whole.kernels[i]};
    UCUDNN_ASSIGN_OR_RETURN(const auto undivided,
                            Executor::Create(device_, one));
    const ConvProblem& problem = kernels[i].problem;
    const Bytes size(ElementsOf(problem, plan_.batch).out *
                     ElementBytes(problem.precision));
    UCUDNN_ASSIGN_OR_RETURN(const std::string planned,
                            Run(*executor_, i, size));
    UCUDNN_ASSIGN_OR_RETURN(const std::string expected,
                            Run(*undivided, 0, size));
    const double error =
        RelativeError(DecodeElements(planned, problem.precision),
                      DecodeElements(expected, problem.precision));
    double& worst = UsesLargeWinograd(plan_.kernels[i])
                        ? errors.large_winograd
                        : errors.by_op[static_cast<std::size_t>(kernels[i].op)];
    worst = Worse(worst, error);
    if (progress) {
      progress(static_cast<std::int64_t>(i) + 1,
               static_cast<std::int64_t>(kernels.size()));
    }
  }
  return errors;
}

Result<Timing> Workload::MeasureWith(Executor& executor, int iterations,
                                     const Progress& progress) {
  std::vector<Nanoseconds> times;
  for (int n = -kWarmUp; n < iterations; ++n) {
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, device_.Time([&] {
      return executor.RunAll([&](std::size_t) { return Args(); });
    }));
    if (n >= 0) times.push_back(time);
    if (progress) progress(n + kWarmUp + 1, iterations + kWarmUp);
  }
  const MedianAndSpread summary = MedianAndSpreadOf(times);
  return Timing{summary.median, summary.spread, iterations, std::move(times)};
}

Result<Timing> Workload::Measure(int iterations, const Progress& progress) {
  return MeasureWith(*executor_, iterations, progress);
}

Result<Timing> Workload::MeasureUndivided(int iterations,
                                          const Progress& progress) {
  UCUDNN_ASSIGN_OR_RETURN(const auto kernels, KernelsOfPlan(plan_));
  UCUDNN_ASSIGN_OR_RETURN(
      WorkspacePlan plan,
      UndividedPlan(device_, kernels, plan_.batch, plan_.workspace_limit));
  MeasureOptions options;
  options.max_repeats = 5;
  options.time_limit = std::chrono::milliseconds(500);
  options.max_workspace = plan_.workspace_limit;
  MeasureBench bench(device_);
  std::map<ConvProblem, MeasuredPoint> fastest;
  for (KernelPlan& kernel : plan.kernels) {
    const auto [entry, is_new] = fastest.try_emplace(*kernel.problem);
    if (is_new) {
      UCUDNN_ASSIGN_OR_RETURN(
          auto points, bench.Measure(*kernel.problem, plan_.batch, options,
                                     std::stop_token(), {}));
      UCUDNN_RETURN_IF_ERROR(
          bench.errors().AddTo(device_, *kernel.problem, points));
      LeaveOutInexact(kernel.precision, kDefaultMaxError, &points);
      if (points.empty()) {
        return Fail(Code::kFailedPrecondition,
                    "{} {}: no undivided algorithm could be measured",
                    kernel.layer, Name(kernel.op));
      }
      entry->second = *std::min_element(
          points.begin(), points.end(),
          [](const auto& x, const auto& y) { return x.time < y.time; });
    }
    kernel.workspace = entry->second.workspace;
    kernel.micro_batches[0].algorithm = entry->second.algorithm;
    kernel.micro_batches[0].workspace = entry->second.workspace;
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const auto executor,
      Executor::Create(device_, plan, {.graph_memory = Bytes()}));
  return MeasureWith(*executor, iterations, progress);
}

}  // namespace ucudnn::rehearse
