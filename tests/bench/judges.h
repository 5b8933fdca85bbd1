#ifndef UCUDNN_TESTS_BENCH_JUDGES_H_
#define UCUDNN_TESTS_BENCH_JUDGES_H_

// General solvers, the judges, timed beside ours in the same run on one thread,
// each with a time limit of UCUDNN_JUDGE_SECONDS (5 by default). If the limit
// ends a judge, its ratio is a lower bound.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/cbc_ilp.h"
#include "tests/support/glpk_ilp.h"
#include "tests/support/highs_ilp.h"
#include "tests/support/ilp_solver.h"

namespace ucudnn::bench {

inline std::int64_t JudgeMilliseconds() {
  const char* seconds = std::getenv("UCUDNN_JUDGE_SECONDS");
  return seconds == nullptr ? 5000 : 1000 * std::atoll(seconds);
}

struct Judgement {
  double seconds = 0;
  bool done = false;   // proven within the limit
  bool wrong = false;  // proven, but worse than our answer or none at all
};

inline Judgement Judge(IlpSolver& judge, const IlpProblem& problem,
                       double least_cost) {
  const auto start = std::chrono::steady_clock::now();
  const auto solution = judge.Solve(problem, JudgeMilliseconds());
  Judgement judgement;
  judgement.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  if (solution) {
    judgement.done = solution->optimal;
    judgement.wrong =
        solution->optimal && solution->cost > least_cost * (1 + 1e-9) + 0.5;
  } else {
    judgement.wrong = solution.error().code == Code::kFailedPrecondition;
    judgement.done = judgement.wrong;
  }
  return judgement;
}

// The ratios of one judge over all instances of a run.
struct Tally {
  int instances = 0;
  int done = 0;
  int wrong = 0;
  double log_ratio = 0;
  double least_ratio = INFINITY;

  void Add(const Judgement& judgement, double ours) {
    const double ratio = judgement.seconds / ours;
    ++instances;
    done += judgement.done ? 1 : 0;
    wrong += judgement.wrong ? 1 : 0;
    log_ratio += std::log(ratio);
    least_ratio = std::min(least_ratio, ratio);
  }
};

// By group of instances and judge.
inline std::map<std::string, Tally>& Tallies() {
  static std::map<std::string, Tally> tallies;
  return tallies;
}

inline void PrintTallies() {
  for (const auto& [name, tally] : Tallies()) {
    fmt::print(
        "{:48} {:3} instances, {:3} within the limit, {:3} wrong; slower than "
        "ours {:.0f} times in the geometric mean, {:.0f} times at least\n",
        name, tally.instances, tally.done, tally.wrong,
        std::exp(tally.log_ratio / tally.instances), tally.least_ratio);
  }
}

// The median of `times` in seconds, and half the interquartile range.
inline std::pair<double, double> MedianAndSpread(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  return {times[n / 2], (times[n - 1 - n / 4] - times[n / 4]) / 2};
}

// Runs `solve` in the benchmark's loop; returns the median of its times.
template <class Solve>
double TimeOurs(benchmark::State& state, const Solve& solve) {
  std::vector<double> times;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    solve();
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count());
    state.SetIterationTime(times.back());
  }
  const auto [median, spread] = MedianAndSpread(std::move(times));
  state.counters["median_us"] = median * 1e6;
  state.counters["spread_us"] = spread * 1e6;
  return median;
}

// Pairs of a group of instances and our time on it.
using Ours = std::vector<std::pair<std::string, double>>;

// Times the judges on `problem` and compares them with `ours`; the benchmark's
// counters show the first of these.
inline void CallJudges(benchmark::State& state, const IlpProblem& problem,
                       double least_cost, const Ours& ours, bool unscaled_too) {
  const auto report = [&](const Judgement& judgement, const std::string& name) {
    for (const auto& [group, seconds] : ours) {
      Tallies()[group + ", " + name].Add(judgement, seconds);
    }
    state.counters["vs_" + name] = judgement.seconds / ours.front().second;
    state.counters[name + "_s"] = judgement.seconds;
  };
  const auto call = [&](IlpSolver& judge, const std::string& name) {
    report(Judge(judge, problem, least_cost), name);
  };
  call(*MakeGlpkSolver(), "GLPK");
  if (unscaled_too) call(*MakeGlpkSolver({.careful = false}), "GLPK_raw");
  call(*test::MakeCbcSolver(), "CBC");
  static const std::unique_ptr<test::HighsSolver> highs =
      test::MakeHighsSolver();
  if (highs == nullptr) return;
  // Runs in a process of its own and reports its own time.
  Judgement judgement = Judge(*highs, problem, least_cost);
  judgement.seconds = highs->last_seconds();
  report(judgement, "HiGHS");
}

// Runs the registered benchmarks, then prints the ratios over all instances.
inline int RunAll(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  PrintTallies();
  return 0;
}

}  // namespace ucudnn::bench

#endif  // UCUDNN_TESTS_BENCH_JUDGES_H_
