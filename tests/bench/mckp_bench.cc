// How long workspace division takes on fronts, and general solvers beside it.
// Every answer must be proven.

#include <benchmark/benchmark.h>

#include "tests/bench/judges.h"
#include "tests/bench/mckp_instances.h"

namespace ucudnn::bench {
namespace {

void Division(benchmark::State& state, const MckpInstance& instance,
              std::int64_t capacity, bool merged, bool judged) {
  const std::vector<MckpClass> classes =
      merged ? instance.Merged() : instance.Kernels();
  Result<MckpSolution> solution = SolveMckp(classes, capacity);
  if (!solution) {
    state.SkipWithError(solution.error().message.c_str());
    return;
  }
  const double ours =
      TimeOurs(state, [&] { solution = SolveMckp(classes, capacity); });
  state.counters["kernels"] = static_cast<double>(instance.front_of.size());
  state.counters["items"] = static_cast<double>(instance.items());
  state.counters["nodes"] = static_cast<double>(solution->nodes);
  state.counters["gap"] =
      static_cast<double>(solution->cost - solution->lower_bound);
  if (judged) {
    CallJudges(state, fmt::format("{} kernels", instance.front_of.size()),
               MckpAsIlp(instance.Kernels(), capacity),
               static_cast<double>(solution->cost), ours, true);
  }
}

// How often each way of calling GLPK is wrong about small instances.
void CountWrongAnswers() {
  constexpr int kInstances = 1000;
  for (const bool careful : {true, false}) {
    int worse = 0;
    int none = 0;
    const auto judge = MakeGlpkSolver({.careful = careful});
    for (std::uint64_t seed = 1; seed <= kInstances; ++seed) {
      std::int64_t capacity = 0;
      const MckpInstance instance = Small(seed, &capacity);
      const auto ours = SolveMckp(instance.Kernels(), capacity);
      const auto theirs =
          judge->Solve(MckpAsIlp(instance.Kernels(), capacity), 5000);
      UCUDNN_CHECK(ours.has_value());
      if (!theirs) {
        none += theirs.error().code == Code::kFailedPrecondition ? 1 : 0;
      } else if (theirs->optimal &&
                 theirs->cost > static_cast<double>(ours->cost)) {
        ++worse;
      }
    }
    fmt::print(
        "{} on {} small instances: {} times a worse solution as optimal, {} "
        "times none where there is one\n",
        judge->name(), kInstances, worse, none);
  }
}

void Register(const std::string& name, const MckpInstance& instance,
              std::int64_t capacity, bool merged, bool judged) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) {
                                 Division(state, instance, capacity, merged,
                                          judged);
                               })
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Iterations(judged || merged ? 201 : 7);
}

int Main(int argc, char** argv) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  for (const char* network : {"resnet50", "resnet152"}) {
    for (const bool distinct : {false, true}) {
      const auto instance =
          CudnnLike(UCUDNN_TEST_DATA, network, 32, distinct, 7);
      if (!instance) {
        fmt::print(stderr, "{}\n", instance.error().message);
        return 1;
      }
      const auto kernels = static_cast<std::int64_t>(instance->front_of.size());
      for (const std::int64_t each : {8, 16, 32, 64}) {
        const std::string name = fmt::format("{}/{}MiB", instance->name, each);
        // Every kernel a class of its own, and copies of shared fronts as one.
        Register(name, *instance, each * kMiB * kernels, false, true);
        if (!distinct) {
          Register(name + "/merged", *instance, each * kMiB * kernels, true,
                   false);
        }
      }
    }
  }
  for (const HardFamily family :
       {HardFamily::kIdentical, HardFamily::kAligned, HardFamily::kCorrelated,
        HardFamily::kSubsetSum}) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      for (const double part : {0.1, 0.3, 0.7}) {
        const MckpInstance instance = Hard(family, 10'000, seed);
        Register(fmt::format("{}/10000/seed{}/{}", instance.name, seed, part),
                 instance, CapacityAt(instance, part), false, false);
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  PrintTallies();
  CountWrongAnswers();
  return 0;
}

}  // namespace
}  // namespace ucudnn::bench

int main(int argc, char** argv) { return ucudnn::bench::Main(argc, argv); }
