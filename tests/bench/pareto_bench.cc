// Pareto fronts on an H200's measurements: batch 256, every size, up to 512
// MiB; beside each, in the same run, the paper's recurrence and general
// solvers.
//
//   pareto_bench [--benchmark_filter=Front]    ours alone
//
// Target: under 20 ms a kernel on one core. A general solver makes a front
// point by point, as workspace reuse under each point's workspace. It solves 5
// evenly spaced points of a front; the ratio compares its mean time with our
// time for the whole front divided by the number of points.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/profile.h"
#include "solver/micro_batch/pareto.h"
#include "tests/bench/judges.h"
#include "tests/bench/wr_ilp.h"
#include "tests/solver/micro_batch/naive_pareto.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

const Profile& AlexNet() {
  static const Profile profile = [] {
    ProfileFilter filter;
    filter.precision = "FP32";
    return SelectKernels(
               ReadProfileFile(
                   test::DataPath("h200/alexnet_conv2-5_b256_all_fp32.csv.gz"))
                   .value(),
               filter)
        .value();
  }();
  return profile;
}

const KernelProfile& KernelOf(const benchmark::State& state) {
  return AlexNet().kernels[static_cast<std::size_t>(state.range(0))];
}

void BM_Front(benchmark::State& state) {
  const KernelProfile& kernel = KernelOf(state);
  std::size_t points = 0;
  for (auto _ : state) {
    const auto front = SolvePareto(kernel.points, {BatchSize(256), 512_MiB});
    points = front->points().size();
  }
  state.counters["points"] = static_cast<double>(points);
  state.SetLabel(kernel.id.layer + " " + std::string(Name(kernel.id.op)));
}
BENCHMARK(BM_Front)->DenseRange(0, 11)->Unit(benchmark::kMillisecond);

// The front with the micro-batches of every point.
void BM_FrontWithPlans(benchmark::State& state) {
  const KernelProfile& kernel = KernelOf(state);
  for (auto _ : state) {
    const auto front = SolvePareto(kernel.points, {BatchSize(256), 512_MiB});
    for (std::size_t i = 0; i < front->points().size(); ++i) {
      benchmark::DoNotOptimize(front->PlanAt(i));
    }
  }
  state.SetLabel(kernel.id.layer + " " + std::string(Name(kernel.id.op)));
}
BENCHMARK(BM_FrontWithPlans)->DenseRange(0, 11)->Unit(benchmark::kMillisecond);

// Runs the recurrence once and ours often enough for a steady median, and
// reports their ratio.
void BM_RatioToRecurrence(benchmark::State& state) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  const KernelProfile& kernel = KernelOf(state);
  const WrRequest request{BatchSize(state.range(1)), 512_MiB};
  std::vector<double> ours;
  double naive = 0;
  for (auto _ : state) {
    const auto start = Clock::now();
    const auto expected = test::NaiveFront(kernel.points, request);
    naive = seconds(Clock::now() - start);
    for (int i = 0; i < 101; ++i) {
      const auto before = Clock::now();
      const auto front = SolvePareto(kernel.points, request);
      ours.push_back(seconds(Clock::now() - before));
      if (front->points() != expected) {
        state.SkipWithError("the fronts differ");
        return;
      }
    }
  }
  std::nth_element(ours.begin(), ours.begin() + 50, ours.end());
  state.counters["ratio"] = naive / ours[50];
  state.SetLabel(kernel.id.layer + " " + std::string(Name(kernel.id.op)));
}
BENCHMARK(BM_RatioToRecurrence)
    ->ArgsProduct({benchmark::CreateDenseRange(0, 11, 1), {256}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

void BM_RatioToGeneralSolvers(benchmark::State& state) {
  constexpr std::size_t kPoints = 5;
  const KernelProfile& kernel = KernelOf(state);
  const WrRequest request{BatchSize(256), 512_MiB};
  const auto front = SolvePareto(kernel.points, request);
  const double ours = bench::TimeOurs(state, [&] {
    benchmark::DoNotOptimize(SolvePareto(kernel.points, request));
  });
  const std::size_t size = front->points().size();
  for (std::size_t i = 0; i < std::min(kPoints, size); ++i) {
    const FrontPoint& point = front->points()[i * (size - 1) / (kPoints - 1)];
    bench::CallJudges(
        state, bench::WrAsIlp(kernel.points, {request.batch, point.workspace}),
        static_cast<double>(point.time.count()),
        {{"front, a point", ours / static_cast<double>(size)}}, false);
  }
  state.SetLabel(kernel.id.layer + " " + std::string(Name(kernel.id.op)));
}
BENCHMARK(BM_RatioToGeneralSolvers)
    ->DenseRange(0, 11)
    ->Iterations(101)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::bench::RunAll(argc, argv); }
