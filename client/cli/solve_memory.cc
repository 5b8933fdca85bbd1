#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "base/service/signals.h"
#include "base/text.h"
#include "base/training/json.h"
#include "client/cli/input.h"
#include "client/cli/profile_options.h"
#include "client/cli/solve.h"
#include "client/solve/memory.h"
#include "client/solve/time_limit.h"
#include "solver/memory/bounds.h"
#include "solver/memory/summary.h"

namespace ucudnn::ctl {
namespace {

constexpr Bytes kMaxDeviceModel = 1_MiB;

struct MemoryOptions {
  std::string network;
  std::string precision = "FP32";
  std::string device_model;
  std::string profile;
  double time_limit = std::chrono::duration<double>(kMemoryTime).count();
  std::string timeline;
  std::string graph_out;
  OutputFormat output = OutputFormat::kTable;
  // Everything that needs no file or other flag to be read.
  MemoryProblem problem;
};

Result<DeviceModel> ReadDeviceModel(const std::string& name) {
  const std::vector<std::string> presets = DeviceModelPresets();
  if (std::find(presets.begin(), presets.end(), name) != presets.end()) {
    return DeviceModelPreset(name);
  }
  const Result<std::string> text = ReadFile(name, kMaxDeviceModel);
  if (text) return ParseDeviceModel(*text, Excerpt(name, 4096));
  if (text.error().code == Code::kNotFound) {
    return Fail(Code::kInvalidArgument,
                "--device-model: no file '{}' and no preset of that name; {} "
                "or a JSON file is accepted",
                Excerpt(name, 200), fmt::join(presets, ", "));
  }
  return OfInput(Result<DeviceModel>(tl::unexpected<Error>(text.error())));
}

Result<MemoryProblem> ReadProblem(const MemoryOptions& options) {
  MemoryProblem problem = options.problem;
  problem.option_prefix = "--";
  UCUDNN_ASSIGN_OR_RETURN(problem.precision, ParsePrecision(options.precision));
  UCUDNN_ASSIGN_OR_RETURN(problem.device,
                          ReadDeviceModel(options.device_model));
  UCUDNN_ASSIGN_OR_RETURN(problem.network,
                          ReadInput(options.network, kMaxNetworkFile));
  problem.network_name = NetworkNameOf(options.network);
  if (!options.profile.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(problem.profile, ReadInput(options.profile, 1_GiB));
  }
  problem.request.stop = StopOnSignals();
  problem.time_limit = RoundUpSeconds(options.time_limit);
  return problem;
}

std::string Share(Nanoseconds part, Nanoseconds whole) {
  if (whole.count() == 0) return "-";
  return fmt::format("{:+.1f} %",
                     100.0 * static_cast<double>((part - whole).count()) /
                         static_cast<double>(whole.count()));
}

std::string StallTable(const MemoryPlan& plan, const TrainingGraph& graph) {
  std::vector<Stall> stalls = StallsOf(plan);
  std::stable_sort(
      stalls.begin(), stalls.end(),
      [](const Stall& a, const Stall& b) { return a.duration > b.duration; });
  constexpr std::size_t kShown = 5;
  if (stalls.empty()) return "";
  Table table({"STALL", "AT", "ENDED BY"});
  for (std::size_t i = 0; i < std::min(kShown, stalls.size()); ++i) {
    const MemoryEvent& cause =
        plan.rounds[stalls[i].round].events[stalls[i].cause];
    std::string what(Name(cause.op));
    if (cause.op == EventOp::kCompute) {
      what += ' ' + graph.tasks[cause.task].name;
    } else if (cause.op != EventOp::kSync) {
      what += ' ' + graph.blocks[cause.block].name;
    }
    table.AddRow({HumanTime(stalls[i].duration), HumanTime(stalls[i].start),
                  std::move(what)});
  }
  return "\n" + table.Text() +
         (stalls.size() > kShown
              ? fmt::format("and {} shorter stalls\n", stalls.size() - kShown)
              : "");
}

std::string PlanText(const MemoryPlan& plan, const TrainingGraph& graph) {
  Table table({"", ""});
  const auto row = [&](std::string name, std::string value) {
    table.AddRow({std::move(name), std::move(value)});
  };
  std::string rounds;
  for (const MemoryRound& round : plan.rounds) {
    if (!rounds.empty()) rounds += " + ";
    rounds += fmt::format("{} x {}", round.count, round.batch.count());
  }
  const Nanoseconds ideal = plan.ideal_time.value_or(plan.lower_bound);
  row("policy", plan.choice.empty()
                    ? plan.policy
                    : fmt::format("{}: {}", plan.policy, plan.choice));
  if (plan.gpus > 1) {
    row("GPUs",
        fmt::format("{}, {} images each", plan.gpus, graph.batch.count()));
  }
  row("rounds", std::move(rounds));
  row("time",
      fmt::format("{} ({} of all in memory, bound {})", HumanTime(plan.time),
                  Share(plan.time, ideal), HumanTime(plan.lower_bound)));
  row("stalls", HumanTime(plan.stall));
  row("pool",
      fmt::format("{} of {} (load {}, bound {}, all in memory {})",
                  HumanBytes(plan.peak), HumanBytes(plan.budget),
                  HumanBytes(plan.load), HumanBytes(plan.lower_bound_bytes),
                  plan.ideal_bytes ? HumanBytes(*plan.ideal_bytes) : "-"));
  row("to the host", HumanBytes(plan.offloaded));
  row("from the host", HumanBytes(plan.prefetched));
  row("memory of the host", HumanBytes(plan.host));
  return table.Text() + StallTable(plan, graph);
}

std::string Comparison(const MemoryAnswer& answer) {
  Table table({"POLICY", "CHOICE", "SUB-BATCH", "TIME", "TO IDEAL", "STALLS",
               "POOL", "TO HOST", "FROM HOST"});
  std::string refused;
  const std::optional<Nanoseconds> ideal = IdealTime(answer.graph);
  for (const MemoryAnswer::Tried& t : answer.tried) {
    if (!t.plan) {
      refused += t.plan.error().message + "\n";
      continue;
    }
    const MemoryPlan& plan = *t.plan;
    table.AddRow({plan.policy, plan.choice.empty() ? "-" : plan.choice,
                  std::to_string(plan.sub_batch.count()), HumanTime(plan.time),
                  ideal ? Share(plan.time, *ideal) : "-", HumanTime(plan.stall),
                  HumanBytes(plan.peak), HumanBytes(plan.offloaded),
                  HumanBytes(plan.prefetched)});
  }
  return table.Text() + (refused.empty() ? "" : "\nNot within the budget:\n") +
         refused;
}

Status WriteSideFiles(const MemoryOptions& options,
                      const MemoryAnswer& answer) {
  if (!options.graph_out.empty()) {
    UCUDNN_RETURN_IF_ERROR(
        WriteText(options.graph_out, GraphJson(answer).dump(1) + "\n"));
  }
  const MemoryPlan* fastest = answer.Fastest();
  if (options.timeline.empty() || fastest == nullptr) return {};
  return WriteText(options.timeline,
                   ChromeTrace(*fastest, answer.graph).dump() + "\n");
}

Status RunMemory(const MemoryOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const MemoryProblem problem, ReadProblem(options));
  UCUDNN_ASSIGN_OR_RETURN(const MemoryAnswer answer, SolveMemory(problem));
  UCUDNN_RETURN_IF_ERROR(WriteSideFiles(options, answer));
  UCUDNN_RETURN_IF_ERROR(answer.HasPlan());
  return Print(options.output, ToJson(answer), [&] {
    return answer.all ? Comparison(answer)
                      : PlanText(*answer.Fastest(), answer.graph);
  });
}

}  // namespace

void AddSolveMemory(CLI::App* solve, Chosen* chosen) {
  CLI::App* command = solve->add_subcommand(
      "memory",
      "Plan a training iteration within a device-memory budget: what to "
      "offload, when to prefetch it, and where to place it");
  auto options = std::make_shared<MemoryOptions>();
  MemoryProblem& problem = options->problem;
  command
      ->add_option("--network", options->network,
                   "An ONNX model, or a chain of convolutions as CSV")
      ->option_text("FILE")
      ->required();
  AddBatchOption(command, &problem.batch);
  command
      ->add_option("--precision", options->precision,
                   "FP32, TF32, TRUE_HALF, PSEUDO_HALF or BF16")
      ->option_text("PRECISION")
      ->capture_default_str();
  command
      ->add_option("--device-model", options->device_model,
                   fmt::format("{}, or a JSON file",
                               fmt::join(DeviceModelPresets(), ", ")))
      ->option_text("NAME|FILE")
      ->required();
  CLI::Option* profile =
      command
          ->add_option("--profile", options->profile,
                       "Measurements, as CSV or gzipped CSV; the device model "
                       "estimates the times that it lacks")
          ->option_text("FILE");
  command
      ->add_option("--profile-network", problem.rows.network,
                   "Use only this network of the profile")
      ->option_text("NAME");
  command
      ->add_option("--device", problem.rows.device,
                   "Use only measurements on this device")
      ->option_text("NAME");
  command
      ->add_option("--layout", problem.rows.layout,
                   "Use only measurements in this layout, NCHW or NHWC")
      ->option_text("LAYOUT");
  AddBytesOption(command, "--budget", &problem.request.budget,
                 "Device memory for the iteration; default: the device "
                 "model's");
  std::vector<std::string_view> names;
  for (const MemoryPolicy& policy : MemoryPolicies()) {
    names.push_back(policy.name);
  }
  command
      ->add_option(
          "--policy", problem.policy,
          fmt::format("{}, or all, to compare", fmt::join(names, ", ")))
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
  command
      ->add_option_function<std::int64_t>(
          "--sub-batch",
          [&problem](std::int64_t images) {
            problem.request.sub_batch = BatchSize(images);
          },
          "Images per sub-batch, instead of the policy's choice")
      ->option_text("N")
      ->check(CLI::Range(std::int64_t{1}, kMaxBatchSize.count()));
  command->add_flag("--recompute", problem.request.recompute,
                    "best may compute activations again instead of keeping or "
                    "moving them");
  command->add_flag("--offload-weights", problem.request.offload_weights,
                    "best may keep weights on the host");
  command
      ->add_option("--gpus", problem.request.gpus,
                   "GPUs that share the mini-batch and the link to the host, "
                   "which updates the weights; the plan is for one of them")
      ->option_text("M")
      ->check(CLI::Range(1, kMaxMemoryGpus))
      ->capture_default_str();
  static const std::map<std::string, Fusion> kFusions = {
      {"none", Fusion::kNone}, {"paper", Fusion::kPaper}};
  command
      ->add_option("--fuse", problem.fusion,
                   "paper: normalisations work in place on their convolution's "
                   "output, as moDNN counts layers")
      ->option_text("none|paper")
      ->transform(CLI::CheckedTransformer(kFusions));
  command
      ->add_option(
          "--split", problem.split,
          "Compute the share DEPTH of the convolutions in H x W parts of the "
          "image, one after the other: another network, see docs/memory.md. "
          "stochastic: sizes that hold for cuts drawn at random")
      ->option_text("DEPTH,H,W[,stochastic]")
      ->excludes(profile);
  command
      ->add_option("--time-limit", options->time_limit,
                   "Time limit in seconds for policies that search")
      ->option_text("SECONDS")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      ->add_option(
          "--timeline", options->timeline,
          "Write the plan, or the fastest of several, as a Chrome trace")
      ->option_text("FILE");
  command
      ->add_option("--graph-out", options->graph_out,
                   "Write the training graph with its costs, as JSON")
      ->option_text("FILE");
  AddOutputOption(command, &options->output);
  command->callback([options, chosen] {
    *chosen = [options] { return RunMemory(*options); };
  });
}

}  // namespace ucudnn::ctl
