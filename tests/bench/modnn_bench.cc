// moDNN's evaluation (X. Chen et al., TPDS 2019, section 7) on the device model
// K40, beside its authors' means: memory, time beside vDNN, four GPUs. Then
// moDNN beside vDNN and vDNNExt, plan by plan.
//
//   modnn_bench [SPEEDUP]
//
// SPEEDUP is that of an unfused Winograd convolution, with its workspace;
// without it every convolution has one algorithm.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "base/training/build.h"
#include "base/training/costs.h"
#include "solver/memory/bounds.h"
#include "solver/memory/modnn/host_updates.h"
#include "solver/memory/modnn/sub_batch.h"
#include "solver/memory/policies.h"
#include "solver/memory/round_bound.h"
#include "tests/support/paper_networks.h"

namespace ucudnn {
namespace {

double Seconds(Nanoseconds time) { return Microseconds(time) / 1e6; }
double Gigabytes(Bytes bytes) {
  return static_cast<double>(bytes.count()) / 1e9;
}

class Mean {
 public:
  void Add(double value) {
    sum_ += value;
    log_sum_ += std::log(value);
    ++count_;
  }
  double Arithmetic() const { return sum_ / count_; }
  double Geometric() const { return std::exp(log_sum_ / count_); }
  int count() const { return count_; }

 private:
  double sum_ = 0;
  double log_sum_ = 0;
  int count_ = 0;
};

// The networks of section 7 with their batches, except the FCN, which it does
// not define.
std::vector<TrainingGraph> Networks(const DeviceModel& device) {
  std::vector<TrainingGraph> graphs;
  for (const Graph& network :
       {test::PaperVgg16(256), test::PaperVgg19(256), test::PaperVgg101(128),
        test::PaperResNet34(256), test::PaperResNet152(256)}) {
    TrainingOptions options;
    options.fusion = Fusion::kPaper;
    graphs.push_back(*BuildTrainingGraph(network, options));
    (void)SetDevice(device, &graphs.back());
  }
  return graphs;
}

Result<MemoryPlan> Plan(const char* policy, const TrainingGraph& graph,
                        const MemoryRequest& request) {
  return (*FindMemoryPolicy(policy))->plan(graph, request);
}

MemoryRequest WithBudget(double gigabytes) {
  MemoryRequest request;
  request.budget = Bytes(static_cast<std::int64_t>(gigabytes * 1e9));
  return request;
}

// The largest task at one image with its weights; updates are no tasks of the
// source's graph.
Bytes LargestTask(const TrainingGraph& graph) {
  Bytes largest;
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kUpdate) continue;
    Bytes sum;
    for (const std::size_t block : BlocksOf(task)) {
      sum += graph.blocks[block].SizeAt(BatchSize(1));
    }
    largest = std::max(largest, sum);
  }
  return largest;
}

// 7.1 and 7.3: all blocks at once, beside what one task and one image need.
void Memory(const std::vector<TrainingGraph>& graphs) {
  std::printf("\nmemory, GB\n");
  Mean least;
  Mean offloaded;
  Mean one_image;
  for (const TrainingGraph& graph : graphs) {
    Bytes ideal;
    Bytes at_one;
    for (const MemoryBlock& block : graph.blocks) {
      ideal += block.SizeAt(graph.batch);
      at_one += block.SizeAt(BatchSize(1));
    }
    const double all = Gigabytes(ideal);
    const double seven = Gigabytes(ModnnLeastBytes(graph));
    const double task = Gigabytes(LargestTask(graph));
    std::printf(
        "%-10s ideal %6.1f  (7) %.3f (%.0fx)  weights offloaded %.4f "
        "(%.0fx)  one image %.3f (%.0fx)\n",
        graph.network.c_str(), all, seven, all / seven, task, all / task,
        Gigabytes(at_one), all / Gigabytes(at_one));
    least.Add(all / seven);
    offloaded.Add(all / task);
    one_image.Add(all / Gigabytes(at_one));
  }
  std::printf(
      "means: (7) %.0f, geometric %.0f; weights offloaded %.0f, "
      "geometric %.0f; one image %.0f\n",
      least.Arithmetic(), least.Geometric(), offloaded.Arithmetic(),
      offloaded.Geometric(), one_image.Arithmetic());
}

// 7.2: time above the ideal at 12 GB, and bytes moved.
void At12Gigabytes(const std::vector<TrainingGraph>& graphs) {
  std::printf("\n12 GB: time above the ideal, GB moved\n");
  for (const char* policy :
       {"modnn", "vdnn-all", "vdnn-conv", "vdnn-dyn", "vdnn-ext"}) {
    Mean slowdown;
    std::printf("%-10s", policy);
    for (const TrainingGraph& graph : graphs) {
      const auto plan = Plan(policy, graph, WithBudget(12));
      if (!plan) {
        std::printf("  %s does not fit,", graph.network.c_str());
        continue;
      }
      const double ratio = Seconds(plan->time) / Seconds(*IdealTime(graph));
      slowdown.Add(ratio);
      std::printf("  %s %+.2f %% (%ld images, %.2f),", graph.network.c_str(),
                  100 * (ratio - 1), static_cast<long>(plan->sub_batch.count()),
                  Gigabytes(plan->offloaded + plan->prefetched));
    }
    std::printf("  mean of %d: %+.2f %%\n", slowdown.count(),
                100 * (slowdown.Arithmetic() - 1));
  }
}

// Figure 12: vDNN+ is vDNN with moDNN's sub-batches.
void SmallerBudgets(const std::vector<TrainingGraph>& graphs) {
  std::printf("\nvDNN+ / moDNN by budget\n");
  Mean mean;
  double least = 1e9;
  for (const TrainingGraph& graph : graphs) {
    std::printf("%-10s", graph.network.c_str());
    for (const double gigabytes : {2, 3, 4, 5, 6, 8, 10, 12}) {
      MemoryRequest request = WithBudget(gigabytes);
      const auto ours = Plan("modnn", graph, request);
      if (!ours) continue;
      request.sub_batch = ours->sub_batch;
      const auto theirs = Plan("vdnn-dyn", graph, request);
      if (!theirs) continue;
      const double ratio = Seconds(theirs->time) / Seconds(ours->time);
      mean.Add(ratio);
      least = std::min(least, ratio);
      std::printf("  %g GB %.3f", gigabytes, ratio);
    }
    std::printf("\n");
  }
  std::printf("mean of %d: %.3f, least %.4f\n", mean.count(), mean.Arithmetic(),
              least);
}

// 7.5: speedup over one GPU's ideal.
void FourGpus(const std::vector<TrainingGraph>& graphs) {
  constexpr int kGpus = 4;
  std::printf("\nfour GPUs: speedup over one GPU's ideal\n");
  Mean naive;
  Mean at[3];
  const double budgets[] = {12, 6, 3};
  for (const TrainingGraph& graph : graphs) {
    const TrainingGraph part = *PartOfOneGpu(graph, kGpus);
    const Nanoseconds one = *IdealTime(graph);
    // The device updates its weights when it has them all.
    Nanoseconds updates{0};
    for (const Task& task : graph.tasks) {
      if (task.kind == TaskKind::kUpdate) {
        updates += CostsAt(graph, task, graph.batch).back().time;
      }
    }
    const Nanoseconds exchange = NaiveExchangeTime(graph, kGpus);
    naive.Add(Seconds(one) / Seconds(*IdealTime(part) + updates + exchange));
    std::printf("%-10s naive, ideal memory %.2f (exchange %.0f ms)",
                graph.network.c_str(),
                Seconds(one) / Seconds(*IdealTime(part) + updates + exchange),
                1e3 * Seconds(exchange));
    for (std::size_t i = 0; i < std::size(budgets); ++i) {
      MemoryRequest request = WithBudget(budgets[i]);
      request.gpus = kGpus;
      const auto plan = Plan("modnn", part, request);
      if (!plan) continue;
      const double speedup = Seconds(one) / Seconds(plan->time);
      at[i].Add(speedup);
      std::printf("  moDNN %g GB %.2f", budgets[i], speedup);
    }
    std::printf("\n");
  }
  std::printf("means: naive %.2f; moDNN %.2f, %.2f, %.2f\n", naive.Arithmetic(),
              at[0].Arithmetic(), at[1].Arithmetic(), at[2].Arithmetic());
}

// The pairs of plans at one budget, and those in which moDNN's is slower.
void AgainstVdnn(const DeviceModel& device) {
  std::printf("\nmoDNN slower, 1.5 to 12 GB\n");
  for (const char* policy : {"vdnn-all", "vdnn-conv", "vdnn-dyn", "vdnn-ext"}) {
    int pairs = 0;
    int slower = 0;
    for (const Graph& network :
         {test::PaperVgg16(64), test::PaperVgg16(128), test::PaperVgg16(256),
          test::PaperVgg19(64), test::PaperVgg19(128), test::PaperVgg19(256),
          test::PaperResNet34(128), test::PaperResNet34(256),
          test::PaperResNet50(64), test::PaperResNet50(128),
          test::PaperResNet152(32), test::PaperResNet152(64)}) {
      TrainingGraph graph = *BuildTrainingGraph(network, {});
      (void)SetDevice(device, &graph);
      for (int halves = 3; halves <= 24; ++halves) {
        const MemoryRequest request = WithBudget(halves / 2.0);
        const auto ours = Plan("modnn", graph, request);
        const auto theirs = Plan(policy, graph, request);
        if (!ours || !theirs) continue;
        ++pairs;
        if (ours->time <= theirs->time) continue;
        ++slower;
        std::printf(
            "  %s %ld, %g GB: %.1f ms, %s %.1f ms\n", graph.network.c_str(),
            static_cast<long>(graph.batch.count()), halves / 2.0,
            1e3 * Seconds(ours->time), policy, 1e3 * Seconds(theirs->time));
      }
    }
    std::printf("%-10s slower in %d of %d\n", policy, slower, pairs);
  }
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) {
  const double speedup = argc > 1 ? std::atof(argv[1]) : 0;
  ucudnn::DeviceModel device = *ucudnn::DeviceModelPreset("K40");
  if (speedup > 0) device.algorithms = {{"WINOGRAD_NONFUSED", speedup}};
  const std::vector<ucudnn::TrainingGraph> graphs = ucudnn::Networks(device);
  ucudnn::Memory(graphs);
  ucudnn::At12Gigabytes(graphs);
  ucudnn::SmallerBudgets(graphs);
  ucudnn::FourGpus(graphs);
  ucudnn::AgainstVdnn(device);
  return 0;
}
