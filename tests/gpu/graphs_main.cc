// ucudnn_gpu_graphs: a network's planned convolutions enqueued and replayed.
//
//   ucudnn_gpu_graphs NETWORK.csv BATCH PRECISION [--layout NHWC]
//       [--limit 64MiB] [--engines N]
//
// Plans as the drop-in handle does, with its settings (UCUDNN_BRANCHES=1) and
// from the measurements in UCUDNN_CACHE_DIR; whatever is missing is measured.
// Prints one JSON object: the predicted time of an iteration's convolutions,
// and for the plan and for the fastest undivided algorithms the device's and
// the host's time when they are enqueued, replayed as one graph
// (Executor::RunAll) and as a graph a kernel (Executor::Run).
// --engines adds the first N engines of cuDNN's graph API.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/median.h"
#include "base/onnx/network_file.h"
#include "client/config/dropin_settings.h"
#include "client/dropin/planner/planner.h"
#include "client/executor/executor.h"
#include "device/cudnn/cudnn_device.h"
#include "device/elements.h"
#include "device/reference_element.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string network;
  std::int64_t batch = 0;
  std::string precision;
  std::string layout = "NCHW";
  std::string limit = "64MiB";
  int engines = 0;
};

// What to plan.
struct Job {
  Network network;
  BatchSize batch;
  Bytes limit;
  Precision precision = Precision::kFp32;
  Layout layout = Layout::kNchw;
  std::vector<Kernel> kernels;
};

Result<Job> JobOf(const Arguments& args) {
  Job job;
  UCUDNN_ASSIGN_OR_RETURN(job.network,
                          ReadNetworkFile(args.network, BatchSize(1)));
  UCUDNN_ASSIGN_OR_RETURN(job.precision, ParsePrecision(args.precision));
  UCUDNN_ASSIGN_OR_RETURN(job.layout, ParseLayout(args.layout));
  UCUDNN_ASSIGN_OR_RETURN(job.limit, ParseBytes(args.limit));
  job.batch = BatchSize(args.batch);
  job.kernels = KernelsOf(job.network, job.precision, job.layout);
  return job;
}

// Operands for every kernel, as large as the largest.
struct Operands {
  DeviceBuffer a;
  DeviceBuffer b;
  DeviceBuffer out;

  ConvArgs args() const { return {a.data(), b.data(), out.data()}; }
};

Result<Operands> Allocate(Device& device, const Job& job) {
  OperandElements most;
  for (const Kernel& kernel : job.kernels) {
    const OperandElements its = ElementsOf(kernel.problem, job.batch);
    most.a = std::max(most.a, its.a);
    most.b = std::max(most.b, its.b);
    most.out = std::max(most.out, its.out);
  }
  const std::int64_t element = ElementBytes(job.precision);
  constexpr std::int64_t kPattern = 4'194'301;  // a prime
  Operands operands;
  UCUDNN_ASSIGN_OR_RETURN(operands.a, device.Allocate(Bytes(most.a * element)));
  UCUDNN_ASSIGN_OR_RETURN(operands.b, device.Allocate(Bytes(most.b * element)));
  UCUDNN_ASSIGN_OR_RETURN(operands.out,
                          device.Allocate(Bytes(most.out * element)));
  UCUDNN_RETURN_IF_ERROR(UploadRepeated(
      device, operands.a, RandomElements(kPattern, job.precision, 1)));
  UCUDNN_RETURN_IF_ERROR(UploadRepeated(
      device, operands.b, RandomElements(kPattern, job.precision, 2)));
  return operands;
}

class Planner {
 public:
  Planner(Device& device, DropInSettings settings, BatchPolicy policy)
      : device_(device), planner_([&] {
          settings.policy = policy;
          return LocalSolver::Options{.settings = settings,
                                      .kind = ToString(device.info().kind),
                                      .ask = {}};
        }()) {}

  Result<KernelPlan> Plan(const ConvProblem& problem, BatchSize batch,
                          Bytes limit) {
    return planner_.Plan(
        problem, batch, limit, [this]() -> Result<Device*> { return &device_; },
        LocalSolver::Enqueueing::kReplayed);
  }

  Result<WorkspacePlan> Plan(const Job& job) {
    WorkspacePlan plan;
    plan.batch = job.batch;
    plan.workspace_limit = job.limit;
    for (const Kernel& kernel : job.kernels) {
      auto planned = Plan(kernel.problem, job.batch, job.limit);
      if (!planned) {
        return Within(kernel.layer, std::move(planned).error());
      }
      planned->layer = kernel.layer;
      planned->op = kernel.op;
      plan.total_time += planned->time;
      plan.kernels.push_back(*std::move(planned));
    }
    ShareArena(&plan);
    return plan;
  }

 private:
  Device& device_;
  LocalSolver planner_;
};

struct Times {
  Nanoseconds device{0};
  Nanoseconds host{0};
};

// Medians after a warm-up in which everything is captured.
Result<Times> Measure(Device& device, const std::function<Status()>& work) {
  constexpr int kWarmUp = 3;
  constexpr int kRepeats = 21;
  std::vector<Nanoseconds> of_device;
  std::vector<Nanoseconds> of_host;
  for (int i = -kWarmUp; i < kRepeats; ++i) {
    Nanoseconds host{0};
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, device.Time([&] {
      const auto begun = Clock::now();
      Status done = work();
      host = Clock::now() - begun;
      return done;
    }));
    if (i < 0) continue;
    of_device.push_back(time);
    of_host.push_back(host);
  }
  return Times{MedianAndSpreadOf(of_device).median,
               MedianAndSpreadOf(of_host).median};
}

Json ToJson(const Times& times) {
  return {{"device_us", Microseconds(times.device)},
          {"host_us", Microseconds(times.host)}};
}

Result<Json> Compare(Device& device, const WorkspacePlan& plan,
                     const Operands& operands) {
  std::int64_t steps = 0;
  std::int64_t branched = 0;
  for (const KernelPlan& kernel : plan.kernels) {
    for (const MicroBatch& micro : kernel.micro_batches) {
      steps += micro.count;
      if (EachBranch(micro.algorithm)) branched += micro.count;
    }
  }
  Json json = {{"predicted_us", Microseconds(plan.total_time)},
               {"kernels", plan.kernels.size()},
               {"steps", steps},
               {"branched", branched}};
  const auto run_all = [&](Executor& executor) {
    return executor.RunAll([&](std::size_t) { return operands.args(); });
  };
  // A gibibyte: so that nothing is left out.
  for (const auto& [name, memory] :
       {std::pair("enqueued", Bytes()), std::pair("replayed", 1_GiB)}) {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto executor,
        Executor::Create(device, plan, {.graph_memory = memory}));
    UCUDNN_ASSIGN_OR_RETURN(
        const Times times, Measure(device, [&] { return run_all(*executor); }));
    json[name] = ToJson(times);
    if (memory == Bytes()) continue;
    const Executor::GraphUse use = executor->graphs();
    json[name]["graph_bytes"] = use.memory.count();
    json[name]["problem"] = use.problem;
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const auto executor,
      Executor::Create(device, plan, {.graph_memory = 1_GiB}));
  UCUDNN_ASSIGN_OR_RETURN(
      const Times times, Measure(device, [&]() -> Status {
        for (std::size_t i = 0; i < executor->size(); ++i) {
          UCUDNN_RETURN_IF_ERROR(executor->Run(i, operands.args()));
        }
        return {};
      }));
  json["replayed_by_kernel"] = ToJson(times);
  json["replayed_by_kernel"]["graph_bytes"] = executor->graphs().memory.count();
  json["replayed_by_kernel"]["graphs"] = executor->graphs().graphs;
  return json;
}

Status Run(const Arguments& args) {
  UCUDNN_ASSIGN_OR_RETURN(const Job job, JobOf(args));
  CudnnOptions options;
  options.ordinals = {0};
  options.graph = args.engines > 0;
  options.most_engines = args.engines;
  UCUDNN_ASSIGN_OR_RETURN(DropInSettings settings,
                          ResolveDropInSettings(ProcessEnvironment()));
  options.branches = settings.branches;
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, OpenCudnnDevices(options));
  Device& device = *devices.front();
  Planner planner(device, settings, BatchPolicy::kPowerOfTwo);
  Planner whole(device, settings, BatchPolicy::kUndivided);
  const auto begun = Clock::now();
  UCUDNN_ASSIGN_OR_RETURN(const WorkspacePlan plan, planner.Plan(job));
  UCUDNN_ASSIGN_OR_RETURN(const WorkspacePlan undivided, whole.Plan(job));
  const double seconds =
      std::chrono::duration<double>(Clock::now() - begun).count();
  UCUDNN_ASSIGN_OR_RETURN(const Operands operands, Allocate(device, job));
  Json json = {{"network", job.network.name},      {"batch", job.batch.count()},
               {"precision", Name(job.precision)}, {"layout", Name(job.layout)},
               {"limit_bytes", job.limit.count()}, {"planning_s", seconds},
               {"branches", settings.branches}};
  UCUDNN_ASSIGN_OR_RETURN(json["planned"], Compare(device, plan, operands));
  UCUDNN_ASSIGN_OR_RETURN(json["undivided"],
                          Compare(device, undivided, operands));
  fmt::print("{}\n", json.dump());
  return {};
}

int Main(int argc, char** argv) {
  Arguments args;
  CLI::App app("A network's planned convolutions, enqueued and replayed");
  app.add_option("network", args.network)->required();
  app.add_option("batch", args.batch)->required();
  app.add_option("precision", args.precision)->required();
  app.add_option("--layout", args.layout);
  app.add_option("--limit", args.limit);
  app.add_option("--engines", args.engines);
  CLI11_PARSE(app, argc, argv);
  if (const Status done = Run(args); !done) {
    fmt::print(stderr, "ucudnn_gpu_graphs: {}\n", done.error().message);
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::Main(argc, argv); }
