// The time of an assignment, beside that of the plain dynamic programme over
// batches and of general solvers.
//
// Times are affine in the batch with a noise of 5 %, so neither monotone nor
// convex; each kind has its own rate (in a range of 1 to 5) and fixed cost.

#include <benchmark/benchmark.h>

#include <limits>
#include <random>

#include "solver/assign/assign.h"
#include "tests/bench/judges.h"

namespace ucudnn::bench {
namespace {

struct Shape {
  std::int64_t gpus;
  std::int64_t kinds;
  std::int64_t batch;
  std::int64_t step;  // batches measured: multiples of it
  bool judged;
  bool plain;
};

AssignProblem Generate(const Shape& shape) {
  std::mt19937_64 random(5);
  const auto unit = [&] {
    return static_cast<double>(random() >> 11) * 0x1p-53;
  };
  AssignProblem problem;
  problem.batch = BatchSize(shape.batch);
  for (std::int64_t k = 0; k < shape.kinds; ++k) {
    const double rate = 1000 * (1 + 4 * unit());
    const double fixed = 20'000 + 50'000 * unit();
    auto& table = problem.tables.emplace_back();
    for (std::int64_t b = shape.step; b <= shape.batch; b += shape.step) {
      const double time = fixed + rate * static_cast<double>(b);
      table.push_back({BatchSize(b),
                       Nanoseconds(static_cast<std::int64_t>(
                           time * (1 + 0.05 * (unit() - 0.5)))),
                       Bytes(0)});
    }
  }
  for (std::int64_t g = 0; g < shape.gpus; ++g) {
    AssignGpu gpu;
    gpu.table = static_cast<std::size_t>(g % shape.kinds);
    problem.gpus.push_back(std::move(gpu));
  }
  return problem;
}

// The plain programme: T(s) = min over b of max(T(s - b), t(b)), one GPU after
// the other. O(G B^2).
std::int64_t PlainProgramme(const AssignProblem& problem) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  const auto size = static_cast<std::size_t>(problem.batch.count()) + 1;
  std::vector<std::int64_t> best(size, kNone);
  std::vector<std::int64_t> next;
  best[0] = 0;
  for (const AssignGpu& gpu : problem.gpus) {
    next = best;
    for (const BatchCost& cost : problem.tables[gpu.table]) {
      const auto b = static_cast<std::size_t>(cost.batch.count());
      const std::int64_t time = cost.time.count();
      for (std::size_t s = b; s < size; ++s) {
        next[s] = std::min(next[s], std::max(best[s - b], time));
      }
    }
    best.swap(next);
  }
  return best.back();
}

void Assign(benchmark::State& state, const Shape& shape) {
  const AssignProblem problem = Generate(shape);
  Result<Assignment> assignment = SolveAssignment(problem);
  if (!assignment) {
    state.SkipWithError(assignment.error().message.c_str());
    return;
  }
  const double ours =
      TimeOurs(state, [&] { assignment = SolveAssignment(problem); });
  state.counters["used"] = static_cast<double>(assignment->gpus_used);
  state.counters["ties"] = assignment->ties_resolved ? 1 : 0;
  if (shape.plain) {
    const auto start = std::chrono::steady_clock::now();
    const std::int64_t makespan = PlainProgramme(problem);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
    if (makespan != assignment->makespan.count()) {
      state.SkipWithError("the plain programme disagrees");
      return;
    }
    state.counters["vs_plain"] = seconds / ours;
    state.counters["plain_s"] = seconds;
  }
  if (shape.judged) {
    CallJudges(state, AssignmentAsIlp(problem),
               static_cast<double>(assignment->makespan.count()),
               {{fmt::format("{} GPUs", shape.gpus), ours}}, false);
  }
}

int Main(int argc, char** argv) {
  for (const Shape& shape :
       std::vector<Shape>{{8, 8, 256, 1, true, true},
                          {8, 3, 256, 1, true, true},
                          {16, 16, 256, 1, true, true},
                          {16, 4, 256, 1, true, true},
                          {32, 32, 1024, 4, true, true},
                          {64, 64, 4096, 1, false, true},
                          {64, 64, 4096, 16, true, true},
                          {64, 8, 4096, 1, false, true},
                          {256, 8, 65536, 1, false, false},
                          {256, 256, 65536, 16, false, false},
                          {256, 256, 65536, 1, false, false},
                          {1000, 5, 8192, 1, false, false},
                          {1000, 1000, 8192, 8, false, false}}) {
    benchmark::RegisterBenchmark(
        fmt::format("{}gpus/{}kinds/B{}/step{}", shape.gpus, shape.kinds,
                    shape.batch, shape.step)
            .c_str(),
        [shape](benchmark::State& state) { Assign(state, shape); })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond)
        ->Iterations(51);
  }
  return RunAll(argc, argv);
}

}  // namespace
}  // namespace ucudnn::bench

int main(int argc, char** argv) { return ucudnn::bench::Main(argc, argv); }
