// The problems whose answer is a WorkspacePlan for a profile's kernels.

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/plan/plan_json.h"
#include "client/cli/profile_options.h"
#include "client/cli/solve/general_solver.h"
#include "client/cli/solve/solve.h"
#include "client/solve/answers.h"
#include "solver/knapsack/wd.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn::ctl {
namespace {

using Fronts = std::span<const std::span<const FrontPoint>>;

Status PrintPlan(const Profile& kernels, const Result<WorkspacePlan>& plan,
                 OutputFormat output) {
  if (!plan) return tl::unexpected<Error>(plan.error());
  return Print(output, ToJson(*plan, kernels), [&] {
    return PlanTable(*plan) + Lines({AccuracyNote(kernels, *plan)});
  });
}

WrRequest RequestOf(const ProfileOptions& options) {
  return {options.batch, options.workspace_limit, options.policy};
}

// Equations 1-4 of section III-C (solver/knapsack/wd.h).
IlpProblem WdAsIlp(const Profile& kernels, Fronts fronts, Bytes limit) {
  std::vector<std::vector<MckpItem>> items;
  std::vector<std::string> names;
  for (std::size_t k = 0; k < fronts.size(); ++k) {
    std::vector<MckpItem>& added = items.emplace_back();
    for (const FrontPoint& point : fronts[k]) {
      added.push_back({point.time.count(), point.workspace.count()});
    }
    names.push_back(LabelOf(kernels.kernels[k].id));
  }
  std::vector<MckpClass> classes;
  for (const auto& of_kernel : items) classes.push_back({of_kernel});
  return MckpAsIlp(classes, limit.count(), names);
}

// The best division, asked of the general solver too.
Result<Division> DivideAndConsult(const GeneralSolver& solver,
                                  const Profile& kernels, Fronts fronts,
                                  Bytes limit) {
  UCUDNN_ASSIGN_OR_RETURN(Division division, DivideWorkspace(fronts, limit));
  UCUDNN_ASSIGN_OR_RETURN(
      const auto solution,
      Consult(solver, WdAsIlp(kernels, fronts, limit),
              "Workspace division: mu-cuDNN, section III-C, equations 1-4",
              static_cast<double>(division.time.count())));
  if (!solution) return division;
  division.time = Nanoseconds(0);
  division.workspace = Bytes(0);
  auto value = solution->values.begin();
  for (std::size_t k = 0; k < fronts.size(); ++k) {
    for (std::uint32_t i = 0; i < fronts[k].size(); ++i, ++value) {
      if (*value == 0) continue;
      division.point[k] = i;
      division.time += fronts[k][i].time;
      division.workspace += fronts[k][i].workspace;
    }
  }
  return division;
}

}  // namespace

void AddSolveWr(CLI::App* solve, Chosen* chosen) {
  CLI::App* command = solve->add_subcommand(
      "wr", "Divide mini-batches under a workspace limit for each kernel");
  auto options = std::make_shared<ProfileOptions>();
  AddProfileOptions(command, options.get());
  OnChosen(command, chosen, [options]() -> Status {
    UCUDNN_ASSIGN_OR_RETURN(const Profile kernels, ReadKernels(*options));
    return PrintPlan(kernels, SolveWr(kernels, RequestOf(*options)),
                     options->output);
  });
}

void AddSolveWd(CLI::App* solve, Chosen* chosen) {
  CLI::App* command = solve->add_subcommand(
      "wd", "Divide one workspace limit among all kernels of a network");
  auto options = std::make_shared<ProfileOptions>();
  auto solver = std::make_shared<GeneralSolver>();
  AddProfileOptions(command, options.get());
  AddGeneralSolverOptions(command, solver.get());
  OnChosen(command, chosen, [options, solver]() -> Status {
    UCUDNN_ASSIGN_OR_RETURN(const Profile kernels, ReadKernels(*options));
    const Divide divide = [&](Fronts fronts, Bytes limit) {
      return DivideAndConsult(*solver, kernels, fronts, limit);
    };
    return PrintPlan(kernels, SolveWd(kernels, RequestOf(*options), divide),
                     options->output);
  });
}

}  // namespace ucudnn::ctl
