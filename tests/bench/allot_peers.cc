// What allotments are worth beside those of other formulations on the same
// measurements and with the same measure, each job's share of what it reaches
// alone on all devices:
//
//   equal     every job gets equal counts of devices, dealt out kind after
//             kind, and splits its batch evenly
//   gavel     Gavel's max-min fairness (OSDI 2020, section 4): each job has
//             equal numbers of workers of one kind at a time, and fractions of
//             time on each kind, by its linear programme. Its shares assume
//             that jobs are moved between kinds all the time
//   rounded   the same without moving: one kind for each job for good, the best
//             such choice (an integer programme)
//   sia       Sia's choice of one configuration for each job (SOSP 2023),
//             a number of devices of one kind, by its integer
//             programme, with the same goal as ours instead of its own
//   ours      SolveAllotment
//
// Usage: allot_peers. Reads Gavel's times from the data sets beside the
// repository if they are there.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files/times.h"
#include "base/profile.h"
#include "solver/allot/allot.h"
#include "solver/joint.h"
#include "tests/support/glpk_ilp.h"
#include "tests/support/ilp_solver.h"
#include "tests/support/paths.h"

namespace ucudnn::bench {
namespace {

constexpr std::int64_t kWhole = 1'000'000;  // a share in the programmes
constexpr std::int64_t kLimitMs = 60'000;

// The step of a job on so many devices of each kind; absent if there is none.
std::optional<double> StepOn(const AllotJob& job,
                             const std::vector<std::int64_t>& devices,
                             bool even) {
  AssignProblem problem;
  problem.batch = job.batch;
  problem.tables = job.tables;
  for (std::size_t k = 0; k < devices.size(); ++k) {
    for (std::int64_t i = 0; i < devices[k]; ++i) {
      AssignGpu gpu;
      gpu.table = k;
      problem.gpus.push_back(gpu);
    }
  }
  if (problem.gpus.empty()) return std::nullopt;
  if (even) {
    const auto time = EvenSplit(problem);
    if (time.has_value()) return static_cast<double>(time->count());
    // Even but for the remainder.
    const std::int64_t all = std::ssize(problem.gpus);
    double slowest = 0;
    for (std::int64_t g = 0; g < all; ++g) {
      const std::int64_t share =
          job.batch.count() / all + (g < job.batch.count() % all ? 1 : 0);
      const auto& table =
          job.tables[problem.gpus[static_cast<std::size_t>(g)].table];
      const auto row = std::find_if(
          table.begin(), table.end(),
          [&](const BatchCost& cost) { return cost.batch.count() == share; });
      if (row == table.end()) return std::nullopt;
      slowest = std::max(slowest, static_cast<double>(row->time.count()));
    }
    return slowest;
  }
  const auto assignment = SolveAssignment(problem);
  if (!assignment) return std::nullopt;
  return static_cast<double>(assignment->makespan.count());
}

struct Worth {
  double least = 0;
  double sum = 0;
};

void Print(const char* name, const std::optional<Worth>& worth) {
  if (!worth.has_value()) {
    fmt::print("  {:28} none\n", name);
    return;
  }
  fmt::print("  {:28} least {:.4f}  sum {:.4f}\n", name, worth->least,
             worth->sum);
}

Worth WorthOf(const std::vector<double>& shares) {
  Worth worth;
  worth.least = *std::min_element(shares.begin(), shares.end());
  for (const double share : shares) worth.sum += share;
  return worth;
}

std::optional<Worth> Equal(const AllotProblem& problem,
                           const std::vector<double>& alone) {
  std::vector<std::size_t> devices;
  for (std::size_t k = 0; k < problem.free.size(); ++k) {
    devices.insert(devices.end(), static_cast<std::size_t>(problem.free[k]), k);
  }
  const std::size_t jobs = problem.jobs.size();
  std::vector<std::vector<std::int64_t>> counts(
      jobs, std::vector<std::int64_t>(problem.free.size(), 0));
  for (std::size_t d = 0; d < devices.size(); ++d) {
    ++counts[d % jobs][devices[d]];
  }
  std::vector<double> shares;
  for (std::size_t j = 0; j < jobs; ++j) {
    const auto step = StepOn(problem.jobs[j], counts[j], true);
    if (!step.has_value()) return std::nullopt;
    shares.push_back(alone[j] / *step);
  }
  return WorthOf(shares);
}

// A number of devices of one kind for a job.
struct Configuration {
  std::size_t job = 0;
  std::size_t kind = 0;
  std::int64_t devices = 0;
  double share = 0;
};

// Of all numbers, or of `only` alone.
std::vector<Configuration> Configurations(const AllotProblem& problem,
                                          const std::vector<double>& alone,
                                          std::int64_t only) {
  std::vector<Configuration> all;
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    for (std::size_t k = 0; k < problem.free.size(); ++k) {
      for (std::int64_t n = 1; n <= problem.free[k]; ++n) {
        if (only > 0 && n != only) continue;
        std::vector<std::int64_t> devices(problem.free.size(), 0);
        devices[k] = n;
        const auto step = StepOn(problem.jobs[j], devices, false);
        if (step.has_value()) all.push_back({j, k, n, alone[j] / *step});
      }
    }
  }
  return all;
}

// The best fractions (`whole`: choices) of configurations, at most one in all
// for each job, within the free devices.
std::optional<Worth> Best(const AllotProblem& problem,
                          const std::vector<Configuration>& all, bool whole,
                          bool least_share) {
  IlpProblem ilp;
  ilp.variables.push_back({least_share ? -1 : 0, 0, kWhole, false});
  std::vector<IlpRow> once(problem.jobs.size());
  std::vector<IlpRow> share(problem.jobs.size());
  std::vector<IlpRow> free(problem.free.size());
  for (IlpRow& row : once) row.most = 1;
  for (IlpRow& row : share) row = {{{0, -1}}, 0};
  for (std::size_t k = 0; k < free.size(); ++k) free[k].most = problem.free[k];
  for (const Configuration& one : all) {
    const std::size_t x = ilp.variables.size();
    const auto parts = static_cast<std::int64_t>(one.share * kWhole);
    ilp.variables.push_back({least_share ? 0 : -parts, 0, 1, whole});
    once[one.job].terms.push_back({x, 1});
    share[one.job].terms.push_back({x, parts});
    free[one.kind].terms.push_back({x, one.devices});
  }
  for (auto* rows : {&once, &share, &free}) {
    for (IlpRow& row : *rows) ilp.rows.push_back(std::move(row));
  }
  const auto solution = MakeGlpkSolver()->Solve(ilp, kLimitMs);
  if (!solution) return std::nullopt;
  std::vector<double> shares(problem.jobs.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) {
    shares[all[i].job] += all[i].share * solution->values[i + 1];
  }
  return WorthOf(shares);
}

void Compare(const std::string& title, AllotProblem problem) {
  fmt::print("{}\n", title);
  const auto fair = SolveAllotment(problem);
  problem.goal = AllotGoal::kThroughput;
  const auto fast = SolveAllotment(problem);
  if (!fair || !fast) {
    fmt::print("  {}\n", (fair ? fast : fair).error().message);
    return;
  }
  std::vector<double> alone;
  std::vector<double> fair_shares;
  std::vector<double> fast_shares;
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    const auto whole = static_cast<double>(kWholeShare);
    alone.push_back(static_cast<double>(fair->jobs[j].alone.count()));
    fair_shares.push_back(static_cast<double>(fair->jobs[j].share) / whole);
    fast_shares.push_back(static_cast<double>(fast->jobs[j].share) / whole);
  }
  std::int64_t devices = 0;
  for (const std::int64_t free : problem.free) devices += free;
  const auto workers = std::max<std::int64_t>(
      devices / static_cast<std::int64_t>(problem.jobs.size()), 1);
  const auto equal = Configurations(problem, alone, workers);
  const auto every = Configurations(problem, alone, 0);
  Print("equal counts, even batches", Equal(problem, alone));
  Print("gavel, moved all the time", Best(problem, equal, false, true));
  Print("gavel, rounded", Best(problem, equal, true, true));
  Print("sia, least share", Best(problem, every, true, true));
  Print("ours, least share", WorthOf(fair_shares));
  Print("sia, sum", Best(problem, every, true, false));
  Print("ours, sum", WorthOf(fast_shares));
  fmt::print("  proven: {}\n", fair->optimal && fast->optimal ? "both" : "no");
}

// AlexNet on an H200 and three slices of it, two devices of each.
void CompareAlexNets() {
  AllotProblem problem;
  problem.free = {2, 2, 2, 2};
  const std::vector<std::string> files = {"", "_sm64", "_sm32", "_sm16"};
  struct Wanted {
    std::int64_t batch;
    Bytes limit;
  };
  for (const Wanted& wanted :
       std::vector<Wanted>{{256, 64_MiB}, {128, 8_MiB}, {64, 512_MiB}}) {
    AllotJob& job = problem.jobs.emplace_back();
    job.batch = BatchSize(wanted.batch);
    for (const std::string& file : files) {
      const auto profile = ReadProfileFile(
          test::DataPath("h200/alexnet_b256_pow2" + file + ".csv"));
      UCUDNN_CHECK(profile);
      const auto kernels = SelectKernels(*profile, {.precision = "FP32"});
      UCUDNN_CHECK(kernels);
      JointKind kind;
      kind.kernels = *kernels;
      kind.workspace_limit = wanted.limit;
      kind.policy = BatchPolicy::kPowerOfTwo;
      const auto times = IterationTimes(kind, job.batch, {});
      UCUDNN_CHECK(times);
      job.tables.push_back(*times);
    }
  }
  Compare(
      "AlexNet (256 images 64 MiB, 128 images 8 MiB, 64 images 512 MiB) on 2 "
      "each of H200, 64, 32, 16 SMs",
      problem);
}

// Models of Gavel's measurements on its three kinds; the median where it has
// measured a pair several times.
void CompareGavel(const std::vector<std::int64_t>& free,
                  const std::map<std::string, std::int64_t>& models) {
  const auto path = test::PublicDataPath("gavel/all_single_worker_times.csv");
  if (!path) {
    fmt::print(
        "no comparison on Gavel's times: UCUDNN_PUBLIC_DATA is not set\n");
    return;
  }
  AllotProblem problem;
  problem.free = free;
  std::string title;
  for (const auto& [model, batch] : models) {
    const auto gpus = ReadTimesFile(*path, model);
    if (!gpus) {
      fmt::print("{}\n", gpus.error().message);
      return;
    }
    AllotJob& job = problem.jobs.emplace_back();
    job.batch = BatchSize(batch);
    for (const char* kind : {"v100", "p100", "k80"}) {
      auto& table = job.tables.emplace_back();
      for (const GpuTimes& gpu : *gpus) {
        if (gpu.gpu != kind) continue;
        for (const BatchTime& time : gpu.times) {
          table.push_back({time.batch, time.time, Bytes(0)});
        }
      }
    }
    title += fmt::format("{}{} of {}", title.empty() ? "" : ", ", model, batch);
  }
  Compare(fmt::format("Gavel's {} on {} V100, {} P100, {} K80", title, free[0],
                      free[1], free[2]),
          problem);
}

int Main() {
  CompareAlexNets();
  CompareGavel({2, 4, 4}, {{"ResNet-18", 256}, {"ResNet-50", 128}});
  CompareGavel({4, 4, 8}, {{"LM", 80},
                           {"ResNet-18", 256},
                           {"ResNet-50", 128},
                           {"Transformer", 256}});
  CompareGavel({8, 16, 16}, {{"LM", 160},
                             {"Recommendation", 8192},
                             {"ResNet-18", 512},
                             {"ResNet-50", 256},
                             {"Transformer", 512}});
  return 0;
}

}  // namespace
}  // namespace ucudnn::bench

int main() { return ucudnn::bench::Main(); }
