// The time that ranks of one node take to scale and sum gradients in host
// memory: by MPI's blocking reduction, by MPI's reductions of pieces, and
// through memory that the ranks share. Each round does all three, so that other
// load on the machine affects all of them. Prints CSV: median, half the
// interquartile range, minimum, and the speedup over the blocking reduction.
// Takes a few seconds.
//
//   mpirun -n 2 gradient_bench [FLOATS [ROUNDS]]
//
// The blocking reduction may wait for ever (docs/adr/0007); it is here only for
// comparison.

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "client/gradients/gradient_sum.h"
#include "client/ranks/ranks.h"

namespace ucudnn {
namespace {

using Clock = std::chrono::steady_clock;

double Milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

template <class T>
void Need(const Result<T>& result) {
  if (result) return;
  fmt::print(stderr, "gradient_bench: {}\n", result.error().message);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int Main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  // ResNet-18's.
  const std::size_t count =
      argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 11'689'512;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 30;
  const auto soon = [] { return Clock::now() + std::chrono::minutes(1); };
  const auto near = Ranks::Duplicate(MPI_COMM_WORLD, soon()).value();
  const auto apart = Ranks::Duplicate(MPI_COMM_WORLD, soon()).value();
  apart->ForgoWindow();
  const double scale = 1.0 / near->size();
  std::vector<float> values(count, 1.0F);
  const std::span<float> all(values);

  struct Way {
    std::string name;
    std::function<void()> sum;
    std::vector<double> times = {};
  };
  std::vector<Way> ways = {
      {"blocking",
       [&] {
         const auto factor = static_cast<float>(scale);
         std::transform(values.begin(), values.end(), values.begin(),
                        [factor](float value) { return value * factor; });
         MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(count),
                       MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
       }},
      {"pieces", [&] { Need(ScaleAndSum(*apart, all, scale, soon())); }},
      {"window", [&] { Need(ScaleAndSum(*near, all, scale, soon())); }}};
  for (int round = -2; round < rounds; ++round) {
    for (Way& way : ways) {
      std::fill(values.begin(), values.end(), 1.0F);
      MPI_Barrier(MPI_COMM_WORLD);
      const auto start = Clock::now();
      way.sum();
      MPI_Barrier(MPI_COMM_WORLD);
      if (round >= 0) way.times.push_back(Milliseconds(Clock::now() - start));
      if (std::any_of(values.begin(), values.end(),
                      [](float v) { return v < 0.999F || v > 1.001F; })) {
        Need(Status(Fail(Code::kDataLoss, "{}: wrong sums", way.name)));
      }
    }
  }
  if (near->rank() == 0) {
    if (near->Window(0, soon()).value() == nullptr) {
      fmt::print("the ranks share no memory\n");
    }
    fmt::print("way,ranks,floats,median_ms,spread_ms,fastest_ms,ratio\n");
    double blocking = 0;
    for (Way& way : ways) {
      std::sort(way.times.begin(), way.times.end());
      const auto at = [&](double share) {
        return way.times[static_cast<std::size_t>(
            share * static_cast<double>(way.times.size() - 1))];
      };
      if (blocking == 0) blocking = at(0.5);
      fmt::print("{},{},{},{:.2f},{:.2f},{:.2f},{:.2f}\n", way.name,
                 near->size(), count, at(0.5), (at(0.75) - at(0.25)) / 2, at(0),
                 blocking / at(0.5));
    }
  }
  apart->Close();
  near->Close();
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::Main(argc, argv); }
