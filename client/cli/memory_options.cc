#include "client/cli/memory_options.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/device_kind.h"
#include "base/files/file.h"
#include "base/service/help.h"
#include "base/service/signals.h"
#include "base/service/time_limit.h"
#include "base/text.h"
#include "base/training/json.h"
#include "client/cli/profile_options.h"

namespace ucudnn::ctl {
namespace {

constexpr Bytes kMaxDeviceModel = 1_MiB;

}  // namespace

void AddMemoryOptions(CLI::App* command, std::string_view more_policies,
                      MemoryOptions* options) {
  MemoryProblem& problem = options->problem;
  AddTextOption(command, "--network", "FILE", &options->network,
                "An ONNX model, or a chain of convolutions as CSV")
      ->required();
  AddInputShapeOption(command, &options->problem.shapes);
  AddBatchOption(command, &problem.batch);
  AcceptNames(command->add_option("--precision", options->precision,
                                  "FP32, TF32, TRUE_HALF, PSEUDO_HALF or BF16"),
              NamesOf(kPrecisions))
      ->option_text("PRECISION")
      ->capture_default_str();
  std::vector<std::string_view> names;
  for (const MemoryPolicy& policy : MemoryPolicies()) {
    names.push_back(policy.name);
  }
  command
      ->add_option("--policy", problem.policy,
                   fmt::format("{}{}", fmt::join(names, ", "), more_policies))
      ->option_text("NAME")
      ->capture_default_str();
  static const std::map<std::string, MemoryAllocator> kAllocators = {
      {"policy", MemoryAllocator::kPolicy},
      {"static", MemoryAllocator::kStatic}};
  command
      ->add_option("--allocator", problem.request.allocator,
                   "policy: as the policy's own memory manager assigns "
                   "addresses; static: placed once all lifetimes are known")
      ->option_text("policy|static")
      ->transform(CLI::CheckedTransformer(kAllocators));
  command->add_flag("--recompute", problem.request.recompute,
                    "best may compute activations again instead of keeping or "
                    "moving them");
  command->add_flag("--offload-weights", problem.request.offload_weights,
                    "best may keep weights on the host");
  static const std::map<std::string, Fusion> kFusions = {
      {"none", Fusion::kNone}, {"paper", Fusion::kPaper}};
  command
      ->add_option("--fuse", problem.fusion,
                   "paper: normalisations work in place on their convolution's "
                   "output, as moDNN counts layers")
      ->option_text("none|paper")
      ->transform(CLI::CheckedTransformer(kFusions));
  AddTextOption(
      command, "--split", "DEPTH,H,W[,stochastic]", &problem.split,
      "Compute the share DEPTH of the convolutions in H x W parts of the "
      "image, one after the other: another network, see docs/memory.md. "
      "stochastic: sizes that hold for cuts drawn at random");
  AddTextOption(command, "--profile-network", "NAME", &problem.rows.network,
                "Use only this network of the profile");
  AddTextOption(command, "--device", "NAME", &problem.rows.device,
                "Use only measurements on this device");
  AcceptNames(
      command->add_option("--layout", problem.rows.layout,
                          "Use only measurements in this layout, NCHW or NHWC"),
      NamesOf(kLayouts))
      ->option_text("LAYOUT");
  AddMaxErrorOption(command, &problem.rows.max_error);
  command
      ->add_option("--time-limit", options->time_limit,
                   "Time limit in seconds for policies that search")
      ->option_text("SECONDS")
      ->check(NumberIn(0, 1e6))
      ->capture_default_str();
  AddOutputOption(command, &options->output);
}

void AddDeviceOptions(CLI::App* command, DeviceOptions* options,
                      MemoryRequest* request) {
  command
      ->add_option("--device-model", options->device_model,
                   fmt::format("{}, a JSON file, or a kind of device, whose "
                               "measured model the coordinator has",
                               fmt::join(DeviceModelPresets(), ", ")))
      ->option_text("NAME|FILE|KIND")
      ->required();
  AddTextOption(command, "--profile", "FILE", &options->profile,
                "Measurements, as CSV or gzipped CSV; the device model "
                "estimates the times that it lacks");
  AddBytesOption(command, "--budget", &request->budget,
                 "Device memory for the iteration; default: the device "
                 "model's");
  command
      ->add_option_function<std::int64_t>(
          "--sub-batch",
          [request](std::int64_t images) {
            request->sub_batch = BatchSize(images);
          },
          "Images per sub-batch, instead of the policy's choice")
      ->option_text("N")
      ->check(CLI::Range(std::int64_t{1}, kMaxBatchSize.count()));
  AddTextOption(command, "--timeline", "FILE", &options->timeline,
                "Write the plan, or the fastest of several, as a Chrome trace");
  AddTextOption(command, "--graph-out", "FILE", &options->graph_out,
                "Write the training graph with its costs, as JSON");
}

MemoryProblem WithoutNetwork(const MemoryOptions& options) {
  MemoryProblem problem = options.problem;
  problem.option_prefix = "--";
  problem.request.stop = StopOnSignals();
  problem.time_limit = RoundUpSeconds(options.time_limit);
  return problem;
}

Result<MemoryProblem> ReadMemoryProblem(const MemoryOptions& options) {
  MemoryProblem problem = WithoutNetwork(options);
  UCUDNN_ASSIGN_OR_RETURN(problem.precision, ParsePrecision(options.precision));
  UCUDNN_ASSIGN_OR_RETURN(std::string network,
                          OfInput(ReadFile(options.network, kMaxNetworkFile)));
  problem.network = {std::move(network), Excerpt(options.network, 4096)};
  problem.network_name = NetworkNameOf(options.network);
  return problem;
}

Result<MemoryProblem> ReadMemoryProblem(const MemoryOptions& options,
                                        const DeviceOptions& device,
                                        const ModelOfKind& model_of_kind) {
  UCUDNN_ASSIGN_OR_RETURN(MemoryProblem problem, ReadMemoryProblem(options));
  UCUDNN_ASSIGN_OR_RETURN(
      problem.device,
      ReadDeviceModel("--device-model", device.device_model, model_of_kind));
  if (!device.profile.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(problem.profile, ReadInput(device.profile, 1_GiB));
  }
  return problem;
}

Status WritePlanFiles(const DeviceOptions& options, const MemoryPlan* plan,
                      const TrainingGraph& graph,
                      const nlohmann::ordered_json& graph_json) {
  if (!options.graph_out.empty()) {
    UCUDNN_RETURN_IF_ERROR(
        WriteText(options.graph_out, graph_json.dump(1) + "\n"));
  }
  if (options.timeline.empty() || plan == nullptr) return {};
  return WriteText(options.timeline, ChromeTrace(*plan, graph).dump() + "\n");
}

Result<DeviceModel> ReadDeviceModel(std::string_view flag,
                                    const std::string& name,
                                    const ModelOfKind& model_of_kind) {
  const std::vector<std::string> presets = DeviceModelPresets();
  if (std::find(presets.begin(), presets.end(), name) != presets.end()) {
    return DeviceModelPreset(name);
  }
  const Result<std::string> text = ReadFile(name, kMaxDeviceModel);
  if (text) return ParseDeviceModel(*text, Excerpt(name, 4096));
  if (text.error().code == Code::kNotFound) {
    if (ParseDeviceKind(name)) return model_of_kind(name);
    return Fail(Code::kInvalidArgument,
                "{}: no file '{}' and no preset of that name; {}, a JSON file "
                "or a kind of device is accepted",
                flag, Excerpt(name, 200), fmt::join(presets, ", "));
  }
  return OfInput(Result<DeviceModel>(tl::unexpected<Error>(text.error())));
}

Result<MemoryProblem::Input> ReadInput(const std::string& path, Bytes most) {
  UCUDNN_ASSIGN_OR_RETURN(std::string contents, OfInput(ReadFile(path, most)));
  return MemoryProblem::Input{std::move(contents), Excerpt(path, 4096)};
}

}  // namespace ucudnn::ctl
