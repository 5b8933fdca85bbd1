#include "coordinator/planning/under_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace ucudnn {
namespace {

// Less is within what a plan's prediction is off anyway.
constexpr double kLeast = 1.02;

Nanoseconds ConvolutionTime(const RankPlan& rank) {
  return rank.workspace->total_time - rank.workspace->other_time;
}

double SlowdownOf(const RankPlan& rank, Precision precision,
                  const DeviceModels& models) {
  const auto model = models.find(rank.device_kind);
  if (model == models.end()) return 1;
  const double slowdown = model->second.SlowdownUnderLoad(
      precision, Operations(rank.workspace), ConvolutionTime(rank));
  return slowdown < kLeast ? 1 : slowdown;
}

}  // namespace

void PredictUnderLoad(const DeviceModels& models, JobPlan* plan) {
  Nanoseconds slowest{0};
  bool slows = false;
  std::set<std::pair<std::string, BatchSize>> seen;
  for (const RankPlan& rank : plan->ranks) {
    const double slowdown = SlowdownOf(rank, plan->request.precision, models);
    const Nanoseconds alone = ConvolutionTime(rank);
    const Nanoseconds time(
        std::llround(static_cast<double>(alone.count()) * slowdown));
    slowest = std::max(slowest, time + rank.workspace->other_time);
    if (slowdown == 1) continue;
    slows = true;
    if (!seen.emplace(rank.device_kind, rank.batch).second) continue;
    plan->reasons.push_back(fmt::format(
        "{} images on {}: the device cannot sustain its full clocks; after "
        "seconds of load, {} of convolutions take {}, {:.0f} % more",
        rank.batch.count(), rank.device_kind, HumanTime(alone), HumanTime(time),
        (slowdown - 1) * 100));
  }
  if (slows) plan->under_load = slowest;
}

std::string LoadInputsText(const DeviceModels& models) {
  std::string text;
  for (const auto& [kind, model] : models) {
    const ArithmeticRates& full = model.arithmetic;
    const ArithmeticRates& loaded = model.loaded;
    if (loaded == ArithmeticRates()) continue;
    text += fmt::format("\nunder load {},{},{},{},{},{},{}", kind, full.fp32,
                        full.tf32, full.half, loaded.fp32, loaded.tf32,
                        loaded.half);
  }
  return text;
}

}  // namespace ucudnn
