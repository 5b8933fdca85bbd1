// For each batch-size policy: the cost of measuring AlexNet's conv2 to conv5 on
// an H200, and the quality of the plans. Replays the recording of every
// algorithm at every batch. Prints CSV; takes a few seconds, or a minute with
// --all, which adds the cost of measuring every batch.
//
//   adaptive_bench [--all]

#include <fmt/format.h>

#include "tests/device/measure/recorded_campaigns.h"

namespace ucudnn {
namespace {

double Seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

int Main(bool with_all) {
  test::RecordedCampaigns h200;
  using Measured = test::RecordedCampaigns::Measured;
  Measured all;
  Measured powers;
  Measured undivided;
  Measured grid;
  Measured together;
  if (with_all) h200.Each(BatchPolicy::kAll, &all);
  h200.Each(BatchPolicy::kPowerOfTwo, &powers);
  h200.Each(BatchPolicy::kUndivided, &undivided);
  h200.Adaptive({}, &grid);
  fmt::print(
      "limit_mib,all_us,pow2_ratio,adaptive_ratio,adaptive_s,"
      "adaptive_so_far_ratio,adaptive_so_far_s,grid_ratio\n");
  for (const std::int64_t mib :
       {1,   8,   16,  24,  32,  36,  40,  44,  48,  56,  64,  72,  80,  96,
        110, 120, 128, 150, 175, 192, 224, 256, 320, 384, 512, 768, 1024}) {
    const Bytes limit = 1_MiB * mib;
    const double best = static_cast<double>(h200.BestTime(limit).count());
    const auto ratio = [&](const Measured& measured) {
      return static_cast<double>(h200.PlanTime(measured, limit).count()) / best;
    };
    Measured alone;
    h200.Adaptive({limit}, &alone);
    h200.Adaptive({limit}, &together);
    fmt::print("{},{:.1f},{:.4f},{:.4f},{:.3f},{:.4f},{:.3f},{:.4f}\n", mib,
               best / 1000, ratio(powers), ratio(alone), Seconds(alone.spent),
               ratio(together), Seconds(together.spent), ratio(grid));
  }
  fmt::print("policy,benchmark_s\n");
  for (const auto& [name, measured] :
       {std::pair{"all", &all}, std::pair{"powerOfTwo", &powers},
        std::pair{"undivided", &undivided}, std::pair{"adaptive grid", &grid},
        std::pair{"adaptive, each limit above in turn", &together}}) {
    if (measured->spent == Nanoseconds(0)) continue;
    fmt::print("{},{:.3f}\n", name, Seconds(measured->spent));
  }
  return 0;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) {
  return ucudnn::Main(argc > 1 && std::string(argv[1]) == "--all");
}
