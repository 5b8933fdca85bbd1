// Memory planners side by side, by network, device and budget: the iteration's
// time, its ratio to the certified bound, and the seconds that planning took.
//
//   memory_bench [NETWORK:BATCH ...]

#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/onnx/network_file.h"
#include "base/training/build.h"
#include "base/training/costs.h"
#include "solver/check/memory_plan.h"
#include "solver/memory/bounds.h"
#include "solver/memory/policies.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since)
      .count();
}

double Milliseconds(Nanoseconds time) {
  return static_cast<double>(time.count()) / 1e6;
}

void RunNetwork(const std::string& network, std::int64_t batch,
                const std::string& device) {
  const Graph file = *ReadGraphFile(test::DataPath("onnx/" + network + ".onnx"),
                                    BatchSize(batch));
  TrainingGraph graph = *BuildTrainingGraph(file, {});
  (void)SetDevice(*DeviceModelPreset(device), &graph);
  const MemoryPolicy& best = **FindMemoryPolicy("best");
  const Bytes peak = (**FindMemoryPolicy("baseline"))
                         .plan(graph, {.budget = Bytes(1LL << 50)})
                         ->peak;
  for (const int part : {16, 8, 4, 2, 1}) {
    MemoryRequest request{.budget = peak / part};
    std::optional<Nanoseconds> vdnn;
    const auto since_vdnn = std::chrono::steady_clock::now();
    for (const MemoryPolicy& policy : MemoryPolicies()) {
      if (!policy.name.starts_with("vdnn")) continue;
      for (std::int64_t k = 1; k <= batch; k *= 2) {
        request.sub_batch = BatchSize((batch + k - 1) / k);
        const auto plan = policy.plan(graph, request);
        if (plan && (!vdnn || plan->time < *vdnn)) vdnn = plan->time;
      }
    }
    const double vdnn_seconds = Seconds(since_vdnn);
    request.sub_batch.reset();
    request.recompute = getenv("RECOMPUTE") != nullptr;
    request.offload_weights = getenv("WEIGHTS") != nullptr;
    const auto since = std::chrono::steady_clock::now();
    auto plan = best.plan(graph, request);
    const double seconds = Seconds(since);
    const auto since_bound = std::chrono::steady_clock::now();
    if (plan) SetBounds(graph, &*plan);
    const double bound_seconds = Seconds(since_bound);
    if (!plan) {
      std::printf("%-14s %4ld %-5s 1/%-2d %s\n", network.c_str(), batch,
                  device.c_str(), part, plan.error().message.c_str());
      continue;
    }
    const Status valid = ValidateMemoryPlan(*plan, graph);
    const double ratio =
        Milliseconds(plan->time) / Milliseconds(plan->lower_bound);
    std::printf(
        "%-14s %4ld %-5s 1/%-2d %7.2fGB vdnn %9.2f best %9.2f x%.3f bound "
        "%9.2f gap %.1f%% ideal %9.2f sub %ld %.2fs (%.2f vdnn, %.2f bound) %s "
        "%s\n",
        network.c_str(), batch, device.c_str(), part,
        static_cast<double>(request.budget.count()) / 1e9,
        vdnn ? Milliseconds(*vdnn) : 0.0, Milliseconds(plan->time),
        vdnn ? Milliseconds(*vdnn) / Milliseconds(plan->time) : 0.0,
        Milliseconds(plan->lower_bound), 100 * (ratio - 1),
        Milliseconds(plan->ideal_time.value_or(Nanoseconds(0))),
        plan->sub_batch.count(), seconds, vdnn_seconds, bound_seconds,
        plan->choice.c_str(), valid ? "" : valid.error().message.c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) {
  std::vector<std::string> networks(argv + 1, argv + argc);
  for (const std::string& entry : networks) {
    const std::size_t colon = entry.find(':');
    for (const char* device : {"K40", "H200"}) {
      ucudnn::RunNetwork(entry.substr(0, colon),
                         std::stol(entry.substr(colon + 1)), device);
    }
  }
  return 0;
}
