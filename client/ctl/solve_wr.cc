#include <memory>

#include "base/plan_json.h"
#include "client/ctl/profile_options.h"
#include "client/ctl/solve.h"
#include "solver/wr.h"

namespace ucudnn::ctl {

void AddSolveWr(CLI::App* solve, Chosen* chosen) {
  CLI::App* command = solve->add_subcommand(
      "wr", "Divide mini-batches under a workspace limit for each kernel");
  auto options = std::make_shared<ProfileOptions>();
  AddProfileOptions(command, options.get());
  command->callback([options, chosen] {
    *chosen = [options]() -> Status {
      UCUDNN_ASSIGN_OR_RETURN(const Profile kernels, ReadKernels(*options));
      UCUDNN_ASSIGN_OR_RETURN(
          const WorkspacePlan plan,
          SolveWr(kernels,
                  {options->batch, options->workspace_limit, options->policy}));
      return Print(options->output, ToJson(plan),
                   [&plan] { return PlanTable(plan); });
    };
  });
}

}  // namespace ucudnn::ctl
