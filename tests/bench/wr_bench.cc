// Workspace reuse on an H200's measurements: one kernel, batch 256; beside each
// kernel, in the same run, general solvers (tests/bench/judges.h).
//
//   wr_bench [--benchmark_filter=...]
//
// Target: every size, 8 algorithms, under 0.2 ms a kernel on one core.

#include <benchmark/benchmark.h>

#include <random>

#include "base/profile.h"
#include "solver/micro_batch/wr.h"
#include "tests/bench/judges.h"
#include "tests/bench/wr_ilp.h"
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

// A kernel of 8 algorithms at every size up to `batch`. Random times grow a
// little more slowly than the batch, so that few sizes can be dropped.
KernelProfile Synthetic(std::int64_t batch) {
  std::mt19937_64 random(1);
  KernelProfile kernel;
  for (std::int64_t b = 1; b <= batch; ++b) {
    for (int a = 0; a < 8; ++a) {
      const auto jitter = static_cast<std::int64_t>(random() % 1000);
      kernel.points.push_back(
          {BatchSize(b),
           {"ALGORITHM_" + std::to_string(a), "FMA", Precision::kFp32},
           Bytes(b * (a << 16)),
           Nanoseconds(b * (9000 - 500 * a) + jitter)});
    }
  }
  return kernel;
}

void BM_WrH200(benchmark::State& state) {
  const KernelProfile& kernel =
      AlexNet().kernels[static_cast<std::size_t>(state.range(0))];
  const WrRequest request{BatchSize(256), 64_MiB};
  const double ours = bench::TimeOurs(
      state, [&] { benchmark::DoNotOptimize(SolveWr(kernel, request)); });
  // Medians only, because the general solvers' model has no noise.
  const auto curve = SolveWrCurve(kernel.points, request.batch,
                                  request.workspace_limit, request.policy);
  bench::CallJudges(
      state, bench::WrAsIlp(kernel.points, request),
      static_cast<double>(curve->LowerBoundAt(request.batch)->count()),
      {{"workspace reuse", ours}}, false);
  state.SetLabel(kernel.id.layer + " " + std::string(Name(kernel.id.op)));
}
BENCHMARK(BM_WrH200)->DenseRange(0, 11)->Iterations(201)->UseManualTime()->Unit(
    benchmark::kMicrosecond);

void BM_WrSynthetic(benchmark::State& state) {
  const KernelProfile kernel = Synthetic(state.range(0));
  const WrRequest request{BatchSize(state.range(0)), 64_MiB};
  for (auto _ : state) {
    benchmark::DoNotOptimize(SolveWr(kernel, request));
  }
  state.SetComplexityN(state.range(0));
}
BENCHMARK(BM_WrSynthetic)
    ->RangeMultiplier(2)
    ->Range(64, 2048)
    ->Unit(benchmark::kMicrosecond)
    ->Complexity();

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::bench::RunAll(argc, argv); }
