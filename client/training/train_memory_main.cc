// Trains a network on one device within a budget of its memory, as a memory
// plan says:
//
//   ucudnn-train-memory --network resnet50.onnx --batch 256 --precision TF32
//       --memory-budget 8GiB

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/files/file.h"
#include "base/network.h"
#include "base/onnx/network_file.h"
#include "base/service/cgroup.h"
#include "base/service/completion.h"
#include "base/service/help.h"
#include "base/service/signals.h"
#include "base/service/time_limit.h"
#include "base/text.h"
#include "base/training/json.h"
#include "client/cli/command.h"
#include "client/cli/network_options.h"
#include "client/cli/profile_options.h"
#include "client/training/link_under_load.h"
#include "client/training/memory_run.h"
#include "client/training/prepared_training.h"
#include "device/open_devices.h"
#include "device/operators/open.h"
#include "solver/memory/policies.h"

namespace ucudnn {
namespace {

constexpr int kMostSteps = 1'000'000'000;

struct Arguments {
  std::string network;
  InputShapes shapes;
  TrainingInput input;
  std::string precision = "FP32";
  std::string device = "auto";
  std::string device_model;
  TrainingRequest plan;
  std::string graph_out;
  double time_limit = 60;
  MemoryRunOptions run;
  ctl::OutputFormat output = ctl::OutputFormat::kTable;
};

void AddOptions(CLI::App& app, Arguments* args) {
  app.add_option("--network", args->network,
                 "An ONNX model, or a chain of convolutions as CSV")
      ->option_text("FILE")
      ->required();
  ctl::AddInputShapeOption(&app, &args->shapes);
  ctl::AddBatchOption(&app, &args->input.batch);
  ctl::AcceptNames(
      app.add_option("--precision", args->precision, "FP32 or TF32"),
      {"FP32", "TF32"})
      ->option_text("PRECISION");
  ctl::AddBytesOption(&app, "--memory-budget", &args->plan.budget,
                      "Device memory for training; default: the device's");
  std::vector<std::string_view> names = {"undivided"};
  for (const MemoryPolicy& policy : MemoryPolicies()) {
    names.push_back(policy.name);
  }
  app.add_option("--memory-policy", args->plan.policy,
                 fmt::format("{}", fmt::join(names, ", ")))
      ->option_text("NAME");
  app.add_flag("--recompute", args->plan.recompute,
               "best may compute activations again instead of keeping or "
               "moving them");
  app.add_flag("--offload-weights", args->plan.offload_weights,
               "best may keep weights on the host");
  app.add_flag("--allow-sub-batch-statistics",
               args->plan.allow_sub_batch_statistics,
               "Train in sub-batches even if the network normalises over "
               "images, each with statistics of its own");
  app.add_option("--device", args->device,
                 "auto: the first GPU, else the CPU; cpu; or a GPU's number")
      ->option_text("auto|cpu|N");
  app.add_option("--device-model", args->device_model,
                 "The link to the host as a JSON file, instead of measuring it")
      ->option_text("FILE");
  app.add_option("--steps", args->run.steps, "Steps to train")
      ->option_text("N")
      ->check(CLI::Range(1, kMostSteps));
  app.add_option("--rate", args->run.execution.rate, "Of learning");
  app.add_option("--seed", args->input.seed, "Of parameters and images");
  app.add_option("--time-limit", args->time_limit,
                 "Time limit in seconds for policies that search")
      ->option_text("SECONDS")
      ->check(CLI::Range(0.0, 1e6));
  app.add_flag("--task-times", args->run.execution.time_tasks,
               "Time each task, and compare operators with the plan");
  app.add_option("--graph-out", args->graph_out,
                 "Write the training graph with the times and the link of the "
                 "plan, as JSON; ucudnn solve memory --graph plans it again")
      ->option_text("FILE");
  ctl::AddOutputOption(&app, &args->output);
}

Result<std::unique_ptr<Device>> OpenDevice(const std::string& name) {
  DeviceOptions options;
  options.quick_listing = true;
  if (name == "cpu") {
    options.gpus = false;
  } else if (name != "auto") {
    auto ordinal = ParseInteger(name, 0, 1024);
    if (!ordinal) return Within("--device", std::move(ordinal).error());
    options.gpu_ordinals = {static_cast<int>(*ordinal)};
  }
  UCUDNN_ASSIGN_OR_RETURN(auto devices, OpenDevices(options));
  return std::move(devices.front());
}

Status Train(Arguments& args, const std::stop_token& stop) {
  UCUDNN_ASSIGN_OR_RETURN(args.input.precision, ParsePrecision(args.precision));
  UCUDNN_RETURN_IF_ERROR(CheckTrainingPolicy(args.plan.policy));
  args.input.source = Excerpt(args.network, 4096);
  args.input.name = NetworkNameOf(args.network);
  UCUDNN_ASSIGN_OR_RETURN(args.input.contents, OfInput(ReadNetworkContents(
                                                   args.network, args.shapes)));
  if (!args.device_model.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                            OfInput(ReadFile(args.device_model, 1_MiB)));
    UCUDNN_ASSIGN_OR_RETURN(args.input.model,
                            ParseDeviceModel(text, args.device_model));
  }
  args.plan.time_limit = RoundUpSeconds(args.time_limit);
  args.run.execution.allow_sub_batch_statistics =
      args.plan.allow_sub_batch_statistics;
  UCUDNN_ASSIGN_OR_RETURN(const auto device, OpenDevice(args.device));
  UCUDNN_ASSIGN_OR_RETURN(const auto operators, OpenOperators(*device));
  if (args.plan.budget == Bytes()) {
    args.plan.budget = device->info().kind.memory;
    const auto left = ReadCgroupLimits().memory;
    if (left && device->info().id.starts_with("cpu-")) {
      args.plan.budget = std::min(args.plan.budget, *left);
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const auto prepared,
      PrepareTraining(*device, *operators, args.input, stop));
  UCUDNN_ASSIGN_OR_RETURN(MemoryPlan plan,
                          PlanTraining(*prepared, args.plan, stop));
  DeviceBuffer host;
  if (!args.input.model && plan.offloaded > Bytes()) {
    UCUDNN_ASSIGN_OR_RETURN(
        const bool changed,
        MeasureLinkUnderLoad(*device, *operators, *prepared, plan,
                             args.run.execution, stop, &host,
                             &prepared->training.device));
    if (changed) {
      UCUDNN_ASSIGN_OR_RETURN(plan, PlanTraining(*prepared, args.plan, stop));
    }
  }
  if (!args.graph_out.empty()) {
    const TrainingGraph& graph = prepared->training;
    UCUDNN_RETURN_IF_ERROR(
        ctl::WriteText(args.graph_out,
                       ToJson(graph, MeasuredBatchesOf(graph)).dump(1) + "\n"));
  }
  UCUDNN_ASSIGN_OR_RETURN(const MemoryRun run,
                          RunMemoryPlan(*device, *operators, *prepared, plan,
                                        args.run, stop, &host));
  UCUDNN_RETURN_IF_ERROR(
      ctl::Print(args.output, ToJson(*prepared, plan, run), [&] {
        ctl::Table table({"", ""});
        for (auto& row : ToRows(*prepared, plan, run)) {
          table.AddRow(std::move(row));
        }
        return table.Text();
      }));
  if (!run.interrupted) return {};
  return Fail(Code::kCancelled, "interrupted after {} steps",
              run.losses.size());
}

int Main(int argc, char** argv) {
  Arguments args;
  CLI::App app(
      "Trains a network on one device within a budget of its memory: what does "
      "not fit\nleaves for the host and returns in time.\n\n  "
      "ucudnn-train-memory --network resnet50.onnx --batch 256 --memory-budget "
      "8GiB");
  app.name("ucudnn-train-memory");
  app.set_version_flag("--version", UCUDNN_VERSION);
  ShowDefaults(app);
  AddOptions(app, &args);
  if (AnswerCompletion(app, argc, argv)) return 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return EndParsing(app, error, argc, argv);
  }
  const Status status = Train(args, StopOnSignals());
  if (status) return 0;
  std::fprintf(stderr, "ucudnn-train-memory: %s\n",
               status.error().message.c_str());
  constexpr int kInterrupted = 130;
  return status.error().code == Code::kCancelled ? kInterrupted
                                                 : ctl::ExitStatus(status);
}

}  // namespace
}  // namespace ucudnn

int main(int argc, char** argv) { return ucudnn::Main(argc, argv); }
