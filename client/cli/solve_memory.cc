#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "base/text.h"
#include "base/training/build.h"
#include "base/training/costs.h"
#include "base/training/json.h"
#include "base/training/split.h"
#include "base/training/task_times.h"
#include "client/cli/profile_options.h"
#include "client/cli/solve.h"
#include "client/solve/time_limit.h"
#include "solver/memory/bounds.h"
#include "solver/memory/policies.h"
#include "solver/memory/summary.h"

namespace ucudnn::ctl {
namespace {

using Json = nlohmann::ordered_json;

constexpr Bytes kMaxDeviceModel = 1_MiB;

struct MemoryOptions {
  std::string network;
  BatchSize batch;
  std::string precision = "FP32";
  std::string device_model;
  std::string profile;
  ProfileFilter filter;
  Bytes budget;  // 0: the device model's memory
  std::string policy = "best";
  bool static_allocator = false;
  std::int64_t sub_batch = 0;  // 0: the policy's choice
  bool fuse = false;
  std::string split;
  double time_limit = 60;
  std::string timeline;
  std::string graph_out;
  OutputFormat output = OutputFormat::kTable;
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

template <class T>
Result<T> AtFlag(std::string_view flag, Result<T> result) {
  if (!result) return Within(flag, std::move(result).error());
  return result;
}

Result<TrainingGraph> ReadGraph(const MemoryOptions& options,
                                Precision precision) {
  const TrainingOptions training{precision,
                                 options.fuse ? Fusion::kPaper : Fusion::kNone};
  const std::string source = Excerpt(options.network, 4096);
  UCUDNN_ASSIGN_OR_RETURN(const std::string contents,
                          OfInput(ReadFile(options.network, 2_GiB)));
  Result<Graph> graph = Graph();
  if (IsNetworkCsv(contents)) {
    UCUDNN_ASSIGN_OR_RETURN(const Network network,
                            ReadNetworkFile(options.network, options.batch));
    graph = ChainOf(network, options.batch);
  } else {
    graph = ReadGraphFile(options.network, options.batch);
  }
  if (!graph)
    return OfInput(
        Result<TrainingGraph>(Within(source, std::move(graph).error())));
  if (!options.split.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(
        const SplitOptions split,
        AtFlag("--split", ParseSplitOptions(options.split)));
    UCUDNN_ASSIGN_OR_RETURN(*graph,
                            AtFlag("--split", SplitGraph(*graph, split)));
  }
  Result<TrainingGraph> built = BuildTrainingGraph(*graph, training);
  if (!built) {
    return OfInput(
        Result<TrainingGraph>(Within(source, std::move(built).error())));
  }
  return built;
}

// Sets the graph's times from the profile. If that has several networks and
// none is selected, from the network named like the model file.
Status SetCosts(const MemoryOptions& options, TrainingGraph* graph) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text,
                          OfInput(ReadFile(options.profile, 1_GiB)));
  const std::string source = Excerpt(options.profile, 4096);
  UCUDNN_ASSIGN_OR_RETURN(const Profile profile, ParseProfileCsv(text, source));
  ProfileOptions select;
  select.profile = options.profile;
  select.filter = options.filter;
  select.filter.precision = options.precision;
  std::set<std::string> names;
  for (const KernelProfile& kernel : profile.kernels) {
    names.insert(kernel.id.network);
  }
  if (select.filter.network.empty() && names.count(graph->network) > 0) {
    select.filter.network = graph->network;
  }
  UCUDNN_ASSIGN_OR_RETURN(const Profile kernels, SelectFrom(profile, select));
  UCUDNN_RETURN_IF_ERROR(SetConvolutionCosts(kernels, graph));
  // Other tasks' times are of the same device.
  select.filter.device = kernels.kernels.front().id.device;
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<TaskTime> times,
                          ParseTaskTimesCsv(text, select.filter, source));
  SetTaskCosts(times, graph);
  return {};
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

struct Tried {
  const MemoryPolicy* policy;
  Result<MemoryPlan> plan;
};

std::string Comparison(const std::vector<Tried>& tried,
                       const TrainingGraph& graph) {
  Table table({"POLICY", "CHOICE", "SUB-BATCH", "TIME", "TO IDEAL", "STALLS",
               "POOL", "TO HOST", "FROM HOST"});
  std::string refused;
  const std::optional<Nanoseconds> ideal = IdealTime(graph);
  for (const Tried& t : tried) {
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

Status WriteSideFiles(const MemoryOptions& options, const TrainingGraph& graph,
                      const std::vector<Tried>& tried) {
  const MemoryPlan* fastest = nullptr;
  std::set<BatchSize> batches = {graph.batch};
  for (const Tried& t : tried) {
    if (!t.plan) continue;
    if (fastest == nullptr || t.plan->time < fastest->time) {
      fastest = &*t.plan;
    }
    for (const BatchSize batch : BatchesOf(*t.plan, graph.batch)) {
      batches.insert(batch);
    }
  }
  if (!options.graph_out.empty()) {
    UCUDNN_RETURN_IF_ERROR(WriteText(
        options.graph_out,
        ToJson(graph, {batches.begin(), batches.end()}).dump(1) + "\n"));
  }
  if (!options.timeline.empty() && fastest != nullptr) {
    UCUDNN_RETURN_IF_ERROR(WriteText(
        options.timeline, ChromeTrace(*fastest, graph).dump() + "\n"));
  }
  return {};
}

Status Run(const MemoryOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const Precision precision,
                          ParsePrecision(options.precision));
  UCUDNN_ASSIGN_OR_RETURN(const DeviceModel device,
                          ReadDeviceModel(options.device_model));
  UCUDNN_ASSIGN_OR_RETURN(TrainingGraph graph, ReadGraph(options, precision));
  UCUDNN_RETURN_IF_ERROR(SetDevice(device, &graph));
  if (!options.profile.empty()) {
    UCUDNN_RETURN_IF_ERROR(SetCosts(options, &graph));
  }
  MemoryRequest request;
  request.budget = options.budget > Bytes(0) ? options.budget : device.memory;
  if (options.static_allocator) request.allocator = MemoryAllocator::kStatic;
  if (options.sub_batch > 0) request.sub_batch = BatchSize(options.sub_batch);
  const TimeLimit timer(std::chrono::milliseconds(
      static_cast<std::int64_t>(std::ceil(options.time_limit * 1000))));
  request.stop = timer.token();

  std::vector<Tried> tried;
  const bool all = options.policy == "all";
  if (all) {
    for (const MemoryPolicy& policy : MemoryPolicies()) {
      if (!policy.compared) continue;
      tried.push_back({&policy, PlanMemory(graph, request, policy)});
    }
  } else {
    Result<const MemoryPolicy*> policy = FindMemoryPolicy(options.policy);
    if (!policy) {
      return Fail(Code::kInvalidArgument, "--policy: {}, or all",
                  policy.error().message);
    }
    tried.push_back({*policy, PlanMemory(graph, request, **policy)});
  }
  UCUDNN_RETURN_IF_ERROR(WriteSideFiles(options, graph, tried));
  const bool any = std::any_of(tried.begin(), tried.end(), [](const Tried& t) {
    return t.plan.has_value();
  });
  if (!any) {
    Error error = tried.front().plan.error();
    for (std::size_t i = 1; i < tried.size(); ++i) {
      error.message += "\n" + tried[i].plan.error().message;
    }
    return tl::unexpected<Error>(std::move(error));
  }
  if (!all) {
    const MemoryPlan& plan = *tried.front().plan;
    return Print(options.output, ToJson(plan, graph),
                 [&] { return PlanText(plan, graph); });
  }
  Json plans = Json::array();
  for (const Tried& t : tried) {
    plans.push_back(t.plan ? ToJson(*t.plan, graph)
                           : Json({{"policy", t.policy->name},
                                   {"feasible", false},
                                   {"reason", t.plan.error().message}}));
  }
  return Print(options.output, {{"plans", std::move(plans)}},
               [&] { return Comparison(tried, graph); });
}

}  // namespace

void AddSolveMemory(CLI::App* solve, Chosen* chosen) {
  CLI::App* command = solve->add_subcommand(
      "memory",
      "Plan a training iteration within a device-memory budget: what to "
      "offload, when to prefetch it, and where to place it");
  auto options = std::make_shared<MemoryOptions>();
  command
      ->add_option("--network", options->network,
                   "An ONNX model, or a chain of convolutions as CSV")
      ->option_text("FILE")
      ->required();
  AddBatchOption(command, &options->batch);
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
      ->add_option("--profile-network", options->filter.network,
                   "Use only this network of the profile")
      ->option_text("NAME");
  command
      ->add_option("--device", options->filter.device,
                   "Use only measurements on this device")
      ->option_text("NAME");
  command
      ->add_option("--layout", options->filter.layout,
                   "Use only measurements in this layout, NCHW or NHWC")
      ->option_text("LAYOUT");
  AddBytesOption(command, "--budget", &options->budget,
                 "Device memory for the iteration; default: the device "
                 "model's");
  std::vector<std::string_view> names;
  for (const MemoryPolicy& policy : MemoryPolicies()) {
    names.push_back(policy.name);
  }
  command
      ->add_option(
          "--policy", options->policy,
          fmt::format("{}, or all, to compare", fmt::join(names, ", ")))
      ->option_text("NAME")
      ->capture_default_str();
  static const std::map<std::string, bool> kAllocators = {{"policy", false},
                                                          {"static", true}};
  command
      ->add_option("--allocator", options->static_allocator,
                   "policy: as the policy's own memory manager assigns "
                   "addresses; static: placed once all lifetimes are known")
      ->option_text("policy|static")
      ->transform(CLI::CheckedTransformer(kAllocators));
  command
      ->add_option("--sub-batch", options->sub_batch,
                   "Images per sub-batch, instead of the policy's choice")
      ->option_text("N")
      ->check(CLI::Range(std::int64_t{1}, kMaxBatchSize.count()));
  static const std::map<std::string, bool> kFusions = {{"none", false},
                                                       {"paper", true}};
  command
      ->add_option("--fuse", options->fuse,
                   "paper: normalisations work in place on their convolution's "
                   "output, as moDNN counts layers")
      ->option_text("none|paper")
      ->transform(CLI::CheckedTransformer(kFusions));
  command
      ->add_option(
          "--split", options->split,
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
  command->callback(
      [options, chosen] { *chosen = [options] { return Run(*options); }; });
}

}  // namespace ucudnn::ctl
