#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/plan/prediction.h"
#include "client/cli/profile_options.h"
#include "client/cli/solve/solve.h"
#include "client/solve/answers.h"

namespace ucudnn::ctl {
namespace {

std::string FrontTable(const ParetoFront& front) {
  Table table({"WORKSPACE", "BYTES", "TIME", "MICRO-BATCHES"});
  for (std::size_t i = 0; i < front.points().size(); ++i) {
    const FrontPoint& point = front.points()[i];
    table.AddRow({HumanBytes(point.workspace),
                  std::to_string(point.workspace.count()),
                  HumanTime(point.time), DivisionText(front.PlanAt(i))});
  }
  return table.Text();
}

Status RunPareto(const ProfileOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const Profile kernels, ReadKernels(options));
  const auto front = SolveFront(
      kernels, {options.batch, options.workspace_limit, options.policy});
  if (!front && kernels.kernels.size() != 1) {
    return Within("--layer, --op", front.error());
  }
  if (!front) return tl::unexpected<Error>(front.error());
  return Print(options.output, ToJson(*front, kernels), [&] {
    return FrontTable(*front) + Lines({AccuracyNote(kernels)});
  });
}

}  // namespace

void AddSolvePareto(CLI::App* solve, Chosen* chosen) {
  CLI::App* command = solve->add_subcommand(
      "pareto",
      "List one kernel's divisions that none beats in time and workspace");
  auto options = std::make_shared<ProfileOptions>();
  AddProfileOptions(command, options.get());
  OnChosen(command, chosen, [options] { return RunPareto(*options); });
}

}  // namespace ucudnn::ctl
