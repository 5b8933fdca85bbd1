#include <memory>

#include "base/plan_json.h"
#include "client/ctl/profile_options.h"
#include "client/ctl/solve.h"
#include "solver/wd.h"

namespace ucudnn::ctl {

void AddSolveWd(CLI::App* solve, Chosen* chosen) {
  CLI::App* command = solve->add_subcommand(
      "wd", "Divide one workspace limit among all kernels of a network");
  auto options = std::make_shared<ProfileOptions>();
  AddProfileOptions(command, options.get());
  command->callback([options, chosen] {
    *chosen = [options]() -> Status {
      UCUDNN_ASSIGN_OR_RETURN(const Profile kernels, ReadKernels(*options));
      UCUDNN_ASSIGN_OR_RETURN(
          const WorkspacePlan plan,
          SolveWd(kernels,
                  {options->batch, options->workspace_limit, options->policy}));
      return Print(options->output, ToJson(plan),
                   [&plan] { return PlanTable(plan); });
    };
  });
}

}  // namespace ucudnn::ctl
