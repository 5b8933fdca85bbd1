// The time of workspace division on fronts, beside that of general solvers.
// Every answer must be proven optimal.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>

#include "tests/bench/judges.h"
#include "tests/bench/mckp_instances.h"
#include "tests/support/paths.h"

namespace ucudnn::bench {
namespace {

double MedianOf(const std::vector<MckpClass>& classes, std::int64_t capacity) {
  std::vector<double> seconds;
  for (int i = 0; i < 201; ++i) {
    const auto start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(SolveMckp(classes, capacity));
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count());
  }
  return MedianAndSpread(std::move(seconds)).first;
}

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
    // Shared fronts given once for each kernel, and once in all, as `ucudnn
    // solve wd` does. If every kernel's fastest point fits, there is nothing to
    // choose.
    const bool slack = CapacityAt(instance, 1) <= capacity;
    const std::string kernels =
        fmt::format("{} kernels, {}", instance.front_of.size(),
                    instance.measured ? "measured" : "scaled");
    const double merged_ours = instance.fronts.size() < instance.front_of.size()
                                   ? MedianOf(instance.Merged(), capacity)
                                   : ours;  // nothing to merge
    Ours times;
    for (const std::string& group :
         {kernels + (slack ? ", all fits" : ", a choice left"), kernels}) {
      times.emplace_back(group + ", apart", ours);
      times.emplace_back(group + ", merged", merged_ours);
    }
    CallJudges(state, MckpAsIlp(instance.Kernels(), capacity),
               static_cast<double>(solution->cost), times, true);
  }
}

// How often each way of calling GLPK returns a wrong answer on small instances.
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

struct OverSeeds {
  std::vector<double> medians_us;
  int unproven = 0;

  void Add(const std::vector<MckpClass>& classes, std::int64_t capacity,
           int runs) {
    std::vector<double> times;
    for (int i = 0; i < runs; ++i) {
      const auto start = std::chrono::steady_clock::now();
      const auto solution = SolveMckp(classes, capacity);
      times.push_back(std::chrono::duration<double, std::micro>(
                          std::chrono::steady_clock::now() - start)
                          .count());
      if (i == 0) unproven += solution && solution->optimal ? 0 : 1;
    }
    medians_us.push_back(MedianAndSpread(std::move(times)).first);
  }
  void Print(const std::string& name) {
    std::sort(medians_us.begin(), medians_us.end());
    const std::size_t n = medians_us.size();
    fmt::print(
        "{:32} {} instances: median {:.1f} us, nine in ten {:.1f} us, worst "
        "{:.1f} us, {} not proven\n",
        name, n, medians_us[n / 2], medians_us[n * 9 / 10], medians_us.back(),
        unproven);
  }
};

// One instance says little, so this repeats the measurement over seeds that
// were not used for tuning.
void PrintOverSeeds() {
  constexpr std::uint64_t kFirst = 101;
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  for (const char* network : {"resnet50", "resnet152"}) {
    for (const bool distinct : {false, true}) {
      for (const std::int64_t each : {8, 16, 32, 64}) {
        OverSeeds apart;
        OverSeeds merged;
        for (std::uint64_t seed = kFirst; seed < kFirst + 40; ++seed) {
          const auto instance =
              CudnnLike(test::DataPath(""), network, 32, distinct, seed);
          UCUDNN_CHECK(instance.has_value());
          const std::int64_t capacity =
              each * kMiB * std::ssize(instance->front_of);
          apart.Add(instance->Kernels(), capacity, 7);
          if (!distinct) merged.Add(instance->Merged(), capacity, 7);
        }
        const std::string name = fmt::format(
            "{}/{}/{}MiB", network, distinct ? "distinct" : "shared", each);
        apart.Print(name);
        if (!distinct) merged.Print(name + "/merged");
      }
    }
  }
  for (const HardFamily family :
       {HardFamily::kIdentical, HardFamily::kAligned, HardFamily::kCorrelated,
        HardFamily::kSubsetSum}) {
    OverSeeds seeds;
    std::string name;
    for (std::uint64_t seed = kFirst; seed < kFirst + 10; ++seed) {
      for (const double part : {0.05, 0.2, 0.5, 0.9}) {
        const MckpInstance instance = Hard(family, 10'000, seed);
        name = instance.name;
        seeds.Add(instance.Kernels(), CapacityAt(instance, part), 1);
      }
    }
    seeds.Print(name + "/10000");
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
    for (const char* precision : {"FP32", "TF32"}) {
      const auto instance =
          MeasuredOnH200(test::DataPath(""), network, precision);
      if (!instance) {
        fmt::print(stderr, "{}\n", instance.error().message);
        return 1;
      }
      const auto kernels = static_cast<std::int64_t>(instance->front_of.size());
      for (const std::int64_t each : {8, 16, 32, 64}) {
        const std::string name = fmt::format("{}/{}MiB", instance->name, each);
        Register(name, *instance, each * kMiB * kernels, false, true);
        Register(name + "/merged", *instance, each * kMiB * kernels, true,
                 false);
      }
    }
    for (const bool distinct : {false, true}) {
      const auto instance =
          CudnnLike(test::DataPath(""), network, 32, distinct, 7);
      if (!instance) {
        fmt::print(stderr, "{}\n", instance.error().message);
        return 1;
      }
      const auto kernels = static_cast<std::int64_t>(instance->front_of.size());
      for (const std::int64_t each : {8, 16, 32, 64}) {
        const std::string name = fmt::format("{}/{}MiB", instance->name, each);
        // Once with a class for each kernel, once with a class for each shared
        // front.
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
  if (const int status = RunAll(argc, argv); status != 0) return status;
  CountWrongAnswers();
  PrintOverSeeds();
  return 0;
}

}  // namespace
}  // namespace ucudnn::bench

int main(int argc, char** argv) { return ucudnn::bench::Main(argc, argv); }
