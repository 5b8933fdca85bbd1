#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/command.h"
#include "client/cli/memory_options.h"
#include "client/solve/memory_check.h"

namespace ucudnn::ctl {
namespace {

// More than the plans of any network take.
constexpr Bytes kMaxMemoryPlans = 4_GiB;

struct CheckOptions {
  std::string plan;
  std::string graph;
  OutputFormat output = OutputFormat::kTable;
};

Status RunCheck(const CheckOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const MemoryProblem::Input plans,
                          ReadInput(options.plan, kMaxMemoryPlans));
  std::optional<MemoryProblem::Input> graph;
  if (!options.graph.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(graph, ReadInput(options.graph, kMaxMemoryPlans));
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<CheckedMemory> checked,
                          CheckMemoryPlans(plans, graph));
  return Print(options.output, ToJson(checked), [&] {
    Table table({"POLICY", "TIME", "POOL", "CHECK"});
    for (const CheckedMemory& of : checked) {
      table.AddRow({of.plan.policy, HumanTime(of.plan.time),
                    HumanBytes(of.plan.peak), "keeps every rule"});
    }
    return table.Text();
  });
}

}  // namespace

void AddCheckCommand(CLI::App& app, Chosen* chosen) {
  CLI::App* command = app.add_subcommand(
      "check",
      "Check memory plans against the rules that make them safe to run");
  auto options = std::make_shared<CheckOptions>();
  command
      ->add_option("FILE", options->plan,
                   "What `ucudnn solve memory|joint -o json` printed")
      ->required();
  AddTextOption(command, "--graph", "FILE", &options->graph,
                "The training graph (--graph-out), unless FILE has it");
  AddOutputOption(command, &options->output);
  OnChosen(command, chosen, [options] { return RunCheck(*options); });
}

}  // namespace ucudnn::ctl
