#include "client/solve/memory.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/training/json.h"
#include "client/cli/memory_options.h"
#include "client/cli/memory_text.h"
#include "client/cli/profile_options.h"
#include "client/cli/solve/solve.h"
#include "solver/memory/bounds.h"
#include "solver/memory/summary.h"

namespace ucudnn::ctl {
namespace {

struct SolveMemoryOptions {
  MemoryOptions shared;
  DeviceOptions device;
  std::string graph;
};

// What only a graph replaces.
Status CheckRequired(const SolveMemoryOptions& options) {
  std::string_view lacks;
  if (options.shared.network.empty()) {
    lacks = "--network";
  } else if (options.shared.problem.batch == BatchSize(0)) {
    lacks = "--batch";
  } else if (options.device.device_model.empty()) {
    lacks = "--device-model";
  } else {
    return {};
  }
  return Fail(Code::kInvalidArgument, "{} is required, or --graph", lacks);
}

Result<MemoryProblem> ReadProblem(const SolveMemoryOptions& options,
                                  const ModelOfKind& model_of_kind) {
  if (!options.graph.empty()) {
    MemoryProblem problem = WithoutNetwork(options.shared);
    UCUDNN_ASSIGN_OR_RETURN(problem.graph, ReadInput(options.graph, 1_GiB));
    return problem;
  }
  UCUDNN_RETURN_IF_ERROR(CheckRequired(options));
  return ReadMemoryProblem(options.shared, options.device, model_of_kind);
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
  return MemorySummary(ToJson(plan, graph)) + StallTable(plan, graph);
}

std::string Comparison(const MemoryAnswer& answer) {
  Table table({"POLICY", "CHOICE", "SUB-BATCH", "TIME", "TO IDEAL", "STALLS",
               "POOL", "TO HOST", "FROM HOST"});
  std::string cut_off;
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
                  ideal ? Deviation(plan.time, *ideal) : "-",
                  HumanTime(plan.stall), HumanBytes(plan.peak),
                  HumanBytes(plan.offloaded), HumanBytes(plan.prefetched)});
    if (plan.cut_off) {
      cut_off += fmt::format("\n{}: the search was cut off by its time limit\n",
                             plan.policy);
    }
  }
  return table.Text() + cut_off +
         (refused.empty() ? "" : "\nNot within the budget:\n") + refused;
}

void AddGraphOption(CLI::App* command, std::string* graph) {
  CLI::Option* option =
      AddTextOption(command, "--graph", "FILE", graph,
                    "Plan this training graph with its costs and link, as "
                    "--graph-out and ucudnn-train write it, instead "
                    "of --network, --batch and --device-model");
  for (const char* name : {"--network", "--batch", "--device-model"}) {
    command->get_option(name)->required(false)->excludes(option);
  }
  for (const char* name :
       {"--input-shape", "--precision", "--fuse", "--split", "--profile",
        "--profile-network", "--device", "--layout", "--max-error"}) {
    command->get_option(name)->excludes(option);
  }
}

Status RunMemory(const SolveMemoryOptions& options,
                 const ModelOfKind& model_of_kind) {
  UCUDNN_ASSIGN_OR_RETURN(const MemoryProblem problem,
                          ReadProblem(options, model_of_kind));
  UCUDNN_ASSIGN_OR_RETURN(const MemoryAnswer answer, SolveMemory(problem));
  UCUDNN_RETURN_IF_ERROR(WritePlanFiles(options.device, answer.Fastest(),
                                        answer.graph, GraphJson(answer)));
  UCUDNN_RETURN_IF_ERROR(answer.HasPlan());
  return Print(options.shared.output, ToJson(answer), [&] {
    return (answer.all ? Comparison(answer)
                       : PlanText(*answer.Fastest(), answer.graph)) +
           Lines(answer.notes);
  });
}

}  // namespace

void AddSolveMemory(CLI::App* solve, const ModelOfKind& model_of_kind,
                    Chosen* chosen) {
  CLI::App* command = solve->add_subcommand(
      "memory",
      "Plan a training iteration within a device-memory budget: what to "
      "offload, when to prefetch it, and where to place it");
  auto options = std::make_shared<SolveMemoryOptions>();
  MemoryProblem& problem = options->shared.problem;
  AddMemoryOptions(command, ", or all, to compare", &options->shared);
  AddDeviceOptions(command, &options->device, &problem.request);
  command
      ->add_option("--gpus", problem.request.gpus,
                   "GPUs that share the mini-batch and the link to the host, "
                   "which updates the weights; the plan is for one of them")
      ->option_text("M")
      ->check(CLI::Range(1, kMaxMemoryGpus))
      ->capture_default_str();
  AddGraphOption(command, &options->graph);
  OnChosen(command, chosen, [options, model_of_kind] {
    return RunMemory(*options, model_of_kind);
  });
}

}  // namespace ucudnn::ctl
