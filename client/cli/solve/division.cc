// The problems whose answer is a WorkspacePlan for a profile's kernels.

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/plan/plan_json.h"
#include "client/cli/profile_options.h"
#include "client/cli/solve/solve.h"
#include "solver/knapsack/wd.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn::ctl {
namespace {

using Solver = Result<WorkspacePlan> (*)(const Profile& kernels,
                                         const ProfileOptions& options);

void AddDivision(CLI::App* solve, Chosen* chosen, const std::string& name,
                 const std::string& help, Solver solver) {
  CLI::App* command = solve->add_subcommand(name, help);
  auto options = std::make_shared<ProfileOptions>();
  AddProfileOptions(command, options.get());
  command->callback([options, chosen, solver] {
    *chosen = [options, solver]() -> Status {
      UCUDNN_ASSIGN_OR_RETURN(const Profile kernels, ReadKernels(*options));
      UCUDNN_ASSIGN_OR_RETURN(const WorkspacePlan plan,
                              solver(kernels, *options));
      return Print(options->output, ToJson(plan),
                   [&plan] { return PlanTable(plan); });
    };
  });
}

}  // namespace

void AddSolveWr(CLI::App* solve, Chosen* chosen) {
  AddDivision(solve, chosen, "wr",
              "Divide mini-batches under a workspace limit for each kernel",
              [](const Profile& kernels, const ProfileOptions& options) {
                return SolveWr(kernels, {options.batch, options.workspace_limit,
                                         options.policy});
              });
}

void AddSolveWd(CLI::App* solve, Chosen* chosen) {
  AddDivision(solve, chosen, "wd",
              "Divide one workspace limit among all kernels of a network",
              [](const Profile& kernels, const ProfileOptions& options) {
                return SolveWd(kernels, {options.batch, options.workspace_limit,
                                         options.policy});
              });
}

}  // namespace ucudnn::ctl
