// The time of an allotment of devices to jobs, beside that of general solvers
// of the same problem as an integer programme.
//
// Times are affine in the batch; each job and kind has a rate (in a range of 1
// to 5) and a fixed cost of its own. With noise they vary by 5 %, so are
// neither monotone nor convex.

#include <benchmark/benchmark.h>

#include <ctime>
#include <random>

#include "solver/allot/allot.h"
#include "tests/bench/judges.h"

namespace ucudnn::bench {
namespace {

struct Shape {
  std::int64_t devices;
  std::int64_t kinds;
  std::int64_t jobs;
  std::int64_t batch;
  std::int64_t step;  // batches measured: multiples of it
  bool noise;
  bool judged;
};

AllotProblem Generate(const Shape& shape, AllotGoal goal, unsigned seed) {
  std::mt19937_64 random(seed);
  const auto unit = [&] {
    return static_cast<double>(random() >> 11) * 0x1p-53;
  };
  AllotProblem problem;
  problem.goal = goal;
  problem.free.assign(static_cast<std::size_t>(shape.kinds), 0);
  for (std::int64_t d = 0; d < shape.devices; ++d) {
    ++problem.free[static_cast<std::size_t>(d % shape.kinds)];
  }
  std::vector<double> speeds;
  for (std::int64_t k = 0; k < shape.kinds; ++k)
    speeds.push_back(1 + 4 * unit());
  for (std::int64_t j = 0; j < shape.jobs; ++j) {
    AllotJob& job = problem.jobs.emplace_back();
    job.batch = BatchSize(shape.batch);
    for (std::int64_t k = 0; k < shape.kinds; ++k) {
      // Kinds differ, and every job profits differently from each.
      const double rate =
          10'000 * speeds[static_cast<std::size_t>(k)] * (0.7 + 0.6 * unit());
      const double fixed = 20'000 + 50'000 * unit();
      auto& table = job.tables.emplace_back();
      for (std::int64_t b = shape.step; b <= shape.batch; b += shape.step) {
        const double noise = shape.noise ? 1 + 0.05 * (unit() - 0.5) : 1;
        const double time = (fixed + rate * static_cast<double>(b)) * noise;
        table.push_back({BatchSize(b),
                         Nanoseconds(static_cast<std::int64_t>(time)),
                         Bytes(0)});
      }
    }
  }
  return problem;
}

// For tables whose times rise with the batch, and that have all multiples of a
// step: job j takes one time t, z_jt = 1, and devices n_jkt whose largest
// batches within t sum to the mini-batch at least.
IlpProblem AsIlp(const AllotProblem& problem, const Allotment& best) {
  IlpProblem ilp;
  const std::size_t kinds = problem.free.size();
  constexpr std::int64_t kWhole = 1'000'000;  // of a share
  std::vector<IlpRow> free(kinds);
  for (std::size_t k = 0; k < kinds; ++k) free[k].most = problem.free[k];
  const bool max_min = problem.goal == AllotGoal::kMaxMinShare;
  if (max_min) ilp.variables.push_back({-1, 0, kWhole, false});
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    const AllotJob& job = problem.jobs[j];
    const auto alone = static_cast<double>(best.jobs[j].alone.count());
    std::vector<std::int64_t> times;
    for (const auto& table : job.tables) {
      for (const BatchCost& cost : table) times.push_back(cost.time.count());
    }
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    IlpRow one;
    one.least = one.most = 1;
    IlpRow share;
    share.least = 0;
    if (max_min) share.terms.push_back({0, -1});
    for (const std::int64_t time : times) {
      const auto value =
          static_cast<std::int64_t>(alone / static_cast<double>(time) * kWhole);
      if (value > kWhole) continue;
      const std::size_t z = ilp.variables.size();
      ilp.variables.push_back({max_min ? 0 : -value});
      one.terms.push_back({z, 1});
      share.terms.push_back({z, value});
      IlpRow enough;
      enough.least = 0;
      enough.terms.push_back({z, -job.batch.count()});
      for (std::size_t k = 0; k < kinds; ++k) {
        std::int64_t most = 0;
        for (const BatchCost& cost : job.tables[k]) {
          if (cost.time.count() <= time) most = cost.batch.count();
        }
        if (most == 0) continue;
        const std::size_t n = ilp.variables.size();
        ilp.variables.push_back({0, 0, problem.free[k]});
        enough.terms.push_back({n, most});
        free[k].terms.push_back({n, 1});
      }
      ilp.rows.push_back(std::move(enough));
    }
    ilp.rows.push_back(std::move(one));
    if (max_min) ilp.rows.push_back(std::move(share));
  }
  for (IlpRow& row : free) ilp.rows.push_back(std::move(row));
  return ilp;
}

void Allot(benchmark::State& state, const Shape& shape, AllotGoal goal) {
  // Other seeds in turn, so that the time is not of one lucky instance.
  constexpr unsigned kSeeds = 20;
  unsigned seed = 0;
  int optimal = 0;
  int runs = 0;
  double worst_gap = 0;
  std::vector<double> times;
  std::vector<double> cpu_times;  // which a busy machine distorts less
  for (auto _ : state) {
    const AllotProblem problem = Generate(shape, goal, 1 + seed++ % kSeeds);
    const std::clock_t cpu = std::clock();
    const auto start = std::chrono::steady_clock::now();
    const auto allotment = SolveAllotment(problem);
    cpu_times.push_back(static_cast<double>(std::clock() - cpu) /
                        CLOCKS_PER_SEC);
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count());
    state.SetIterationTime(times.back());
    if (!allotment) {
      state.SkipWithError(allotment.error().message.c_str());
      return;
    }
    ++runs;
    optimal += allotment->optimal ? 1 : 0;
    worst_gap =
        std::max(worst_gap, static_cast<double>(allotment->bound) /
                                    static_cast<double>(allotment->objective) -
                                1);
  }
  state.counters["longest_ms"] =
      1e3 * *std::max_element(times.begin(), times.end());
  state.counters["longest_cpu_ms"] =
      1e3 * *std::max_element(cpu_times.begin(), cpu_times.end());
  state.counters["proven"] = static_cast<double>(optimal) / runs;
  state.counters["gap_%"] = 100 * worst_gap;
  if (!shape.judged) return;
  const AllotProblem problem = Generate(shape, goal, 1);
  const auto allotment = SolveAllotment(problem);
  double cost = 0;
  double least = HUGE_VAL;
  for (const JobAllotment& job : allotment->jobs) {
    const double share =
        std::floor(static_cast<double>(job.alone.count()) /
                   static_cast<double>(job.step.count()) * 1e6);
    cost -= share;
    least = std::min(least, share);
  }
  if (goal == AllotGoal::kMaxMinShare) cost = -least;
  CallJudges(state, AsIlp(problem, *allotment), cost,
             {{goal == AllotGoal::kMaxMinShare ? "least share" : "throughput",
               MedianAndSpread(cpu_times).first}},
             false);
}

int Main(int argc, char** argv) {
  for (const Shape& shape :
       std::vector<Shape>{{8, 4, 3, 64, 4, false, true},
                          {16, 3, 4, 64, 4, false, true},
                          {32, 4, 8, 64, 4, false, true},
                          {64, 6, 16, 64, 4, false, true},
                          {64, 6, 3, 256, 1, true, false},
                          {64, 6, 8, 256, 1, true, false},
                          {64, 6, 16, 256, 1, true, false},
                          {64, 6, 16, 1024, 1, true, false},
                          {64, 6, 16, 1024, 16, true, false},
                          {64, 3, 16, 256, 1, true, false},
                          {128, 6, 32, 256, 1, true, false},
                          {512, 8, 64, 256, 1, true, false}}) {
    for (const AllotGoal goal :
         {AllotGoal::kMaxMinShare, AllotGoal::kThroughput}) {
      benchmark::RegisterBenchmark(
          fmt::format(
              "{}devices/{}kinds/{}jobs/B{}/step{}/{}", shape.devices,
              shape.kinds, shape.jobs, shape.batch, shape.step,
              goal == AllotGoal::kMaxMinShare ? "least_share" : "throughput")
              .c_str(),
          [shape, goal](benchmark::State& state) { Allot(state, shape, goal); })
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond)
          ->Iterations(20);
    }
  }
  return RunAll(argc, argv);
}

}  // namespace
}  // namespace ucudnn::bench

int main(int argc, char** argv) { return ucudnn::bench::Main(argc, argv); }
