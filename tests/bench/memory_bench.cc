// Memory planners by network, device and budget: the time of an iteration, its
// distance from the certified bound, and the seconds of one CPU core that
// planning took. Prints a table in Markdown.
//
//   memory_bench [NETWORK:BATCH ...]
//   memory_bench GRAPH.json:SHARE ...
//
// The second form takes graphs that ucudnn-train --graph-out or
// ucudnn_gpu_memory --graphs measured, and budgets in percent of that peak.
// Networks that normalise over images run the mini-batch at once.
//
// Budgets are parts of the peak of an iteration in which nothing leaves. vDNN
// is the fastest of its policies at the fastest of all sub-batches that cut the
// mini-batch evenly. "measured" has the convolutions' times from
// tests/data/h200, where they were measured at this batch.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "base/profile.h"
#include "base/training/build.h"
#include "base/training/costs.h"
#include "base/training/json.h"
#include "solver/check/memory_plan.h"
#include "solver/memory/best/best.h"
#include "solver/memory/bounds.h"
#include "solver/memory/policies.h"
#include "tests/support/paths.h"

namespace ucudnn {
namespace {

double Milliseconds(Nanoseconds time) {
  return static_cast<double>(time.count()) / 1e6;
}

// Products and counts, for geometric means.
struct Mean {
  double logs = 0;
  int count = 0;

  void Add(double value) {
    logs += std::log(value);
    ++count;
  }
  double Value() const { return count > 0 ? std::exp(logs / count) : 0; }
};

struct Summary {
  Mean over_vdnn;
  Mean ceiling;  // vDNN's time over the bound
  std::vector<double> gaps;
};

// The fastest plan of vDNN, with the time that it takes.
std::optional<Nanoseconds> FastestVdnn(const TrainingGraph& graph,
                                       Bytes budget) {
  std::optional<Nanoseconds> fastest;
  const std::int64_t batch = graph.batch.count();
  std::int64_t before = 0;
  for (std::int64_t rounds = 1; rounds <= batch; ++rounds) {
    const std::int64_t size = (batch + rounds - 1) / rounds;
    if (size == before) continue;
    before = size;
    for (const MemoryPolicy& policy : MemoryPolicies()) {
      if (!policy.name.starts_with("vdnn")) continue;
      const Result<MemoryPlan> plan =
          policy.plan(graph, {.budget = budget, .sub_batch = BatchSize(size)});
      if (plan && (!fastest || plan->time < *fastest)) fastest = plan->time;
    }
  }
  return fastest;
}

// What else the machine does hardly changes it.
double CpuSeconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// Columns of one search: time, gap to its bound, seconds.
std::optional<MemoryPlan> PrintSearch(const TrainingGraph& graph,
                                      const MemoryRequest& request) {
  const double start = CpuSeconds();
  Result<MemoryPlan> plan = PlanBest(graph, request);
  const double seconds = CpuSeconds() - start;
  if (!plan) {
    std::printf(" - | - | %.1f |", seconds);
    return std::nullopt;
  }
  SetBounds(graph, request, &*plan);
  const Status valid = ValidateMemoryPlan(*plan, graph);
  if (!valid) std::printf(" INVALID: %s", valid.error().message.c_str());
  std::printf(
      " %.2f | %.2f %% | %.1f |", Milliseconds(plan->time),
      100 * (Milliseconds(plan->time) / Milliseconds(plan->lower_bound) - 1),
      seconds);
  return *std::move(plan);
}

// Of an iteration in which nothing leaves.
Bytes PeakOf(const TrainingGraph& graph) {
  return (**FindMemoryPolicy("baseline"))
      .plan(graph, {.budget = Bytes(std::int64_t{1} << 50)})
      ->peak;
}

void Run(const TrainingGraph& graph, const std::string& device,
         Summary* summary) {
  const Bytes peak = PeakOf(graph);
  for (const int part : {16, 8, 4, 2}) {
    MemoryRequest request{.budget = peak / part};
    std::printf("| %s %ld | %s | 1/%d = %.2f |", graph.network.c_str(),
                graph.batch.count(), device.c_str(), part,
                static_cast<double>(request.budget.count()) / 1e9);
    const std::optional<Nanoseconds> vdnn = FastestVdnn(graph, request.budget);
    vdnn ? std::printf(" %.2f |", Milliseconds(*vdnn)) : std::printf(" - |");
    const std::optional<MemoryPlan> plan = PrintSearch(graph, request);
    if (plan && vdnn) {
      const double ratio = Milliseconds(*vdnn) / Milliseconds(plan->time);
      const double ceiling =
          Milliseconds(*vdnn) / Milliseconds(plan->lower_bound);
      std::printf(" %.3f | %.3f |", ratio, ceiling);
      if (part <= 8) {
        summary->over_vdnn.Add(ratio);
        summary->ceiling.Add(ceiling);
      }
    } else {
      std::printf(" - | - |");
    }
    if (plan && part <= 4) {
      summary->gaps.push_back(
          Milliseconds(plan->time) / Milliseconds(plan->lower_bound) - 1);
    }
    request.recompute = true;
    PrintSearch(graph, request);
    request.recompute = false;
    request.offload_weights = true;
    PrintSearch(graph, request);
    std::printf("\n");
    std::fflush(stdout);
  }
}

bool NormalisesOverImages(const TrainingGraph& graph) {
  return std::any_of(graph.blocks.begin(), graph.blocks.end(),
                     [](const MemoryBlock& block) {
                       return block.kind == BlockKind::kStatistics;
                     });
}

// A measured graph, and SHARE.
int RunMeasured(const std::string& entry) {
  const std::size_t colon = entry.rfind(':');
  const std::string path = entry.substr(0, colon);
  const Result<std::string> text = ReadFile(path, 1_GiB);
  if (!text) {
    std::fprintf(stderr, "%s\n", text.error().message.c_str());
    return 1;
  }
  const TrainingGraph graph = ParseTrainingGraph(*text, path).value();
  const Bytes peak = PeakOf(graph);
  const std::int64_t share = std::stol(entry.substr(colon + 1));
  MemoryRequest request{.budget = peak * share / 100};
  if (NormalisesOverImages(graph)) request.sub_batch = graph.batch;
  std::printf("| %s %ld %s | %ld %% = %.2f |", graph.network.c_str(),
              graph.batch.count(), std::string(Name(graph.precision)).c_str(),
              share, static_cast<double>(request.budget.count()) / 1e9);
  PrintSearch(graph, request);
  request.recompute = true;
  PrintSearch(graph, request);
  std::printf("\n");
  std::fflush(stdout);
  return 0;
}

int RunAllMeasured(const std::vector<std::string>& entries) {
  std::printf(
      "| network, batch | budget, GB | best, ms | gap | s | --recompute, ms | "
      "gap | s |\n|---|---|---|---|---|---|---|---|\n");
  for (const std::string& entry : entries) {
    if (const int status = RunMeasured(entry); status != 0) return status;
  }
  return 0;
}

int RunAll(const std::vector<std::string>& networks) {
  std::printf(
      "| network, batch | device | budget, GB | vDNN, ms | best, ms | gap | s "
      "| vDNN/best | vDNN/bound | --recompute, ms | gap | s | "
      "--offload-weights, ms | gap | s |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  Summary summary;
  for (const std::string& entry : networks) {
    const std::string name = entry.substr(0, entry.find(':'));
    const BatchSize batch(std::stol(entry.substr(entry.find(':') + 1)));
    const Result<Graph> file =
        ReadGraphFile(test::DataPath("onnx/" + name + ".onnx"), batch);
    if (!file) {
      std::fprintf(stderr, "%s\n", file.error().message.c_str());
      return 1;
    }
    TrainingGraph graph = BuildTrainingGraph(*file, {}).value();
    for (const char* device : {"K40", "H200"}) {
      if (!SetDevice(DeviceModelPreset(device).value(), &graph)) return 1;
      Run(graph, device, &summary);
    }
    const std::string profile = test::DataPath(
        "h200/" + name + "_b" + std::to_string(batch.count()) + "_pow2.csv");
    for (const std::string& path : {profile, profile + ".gz"}) {
      if (!std::filesystem::exists(path)) continue;
      const Profile rows =
          ParseProfileCsv(ReadFile(path, 1_GiB).value(), path).value();
      ProfileFilter filter;
      filter.precision = "FP32";
      const Profile kernels = SelectKernels(rows, filter).value();
      if (!SetConvolutionCosts(kernels, &graph)) return 1;
      Run(graph, "H200 measured", &summary);
    }
  }
  std::sort(summary.gaps.begin(), summary.gaps.end());
  std::printf(
      "\nGeometric means at 1/8, 1/4 and 1/2: vDNN/best %.3f, vDNN/bound "
      "%.3f (%d rows).\nMedian gap at 1/4 and 1/2: %.3f %%, largest %.2f %%.\n",
      summary.over_vdnn.Value(), summary.ceiling.Value(),
      summary.over_vdnn.count, 100 * summary.gaps[summary.gaps.size() / 2],
      100 * summary.gaps.back());
  return 0;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) {
  std::vector<std::string> networks(argv + 1, argv + argc);
  if (!networks.empty() && networks[0].find(".json") != std::string::npos) {
    return ucudnn::RunAllMeasured(networks);
  }
  if (networks.empty()) {
    networks = {"resnet50:32",     "resnet18:128", "vgg16:64",
                "googlenet:128",   "resnet152:32", "r3d_18:32",
                "fcn_resnet50:32", "alexnet:2048"};
  }
  return ucudnn::RunAll(networks);
}
