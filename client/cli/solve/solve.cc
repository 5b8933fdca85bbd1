#include "client/cli/solve/solve.h"

#include <CLI/CLI.hpp>

namespace ucudnn::ctl {

void AddSolveCommands(CLI::App& app, const ModelOfKind& model_of_kind,
                      Chosen* chosen) {
  CLI::App* solve = app.add_subcommand(
      "solve", "Solve a planning problem offline, from files");
  solve->require_subcommand(1);
  AddSolveWr(solve, chosen);
  AddSolvePareto(solve, chosen);
  AddSolveWs(solve, chosen);
  AddSolveWd(solve, chosen);
  AddSolveAssign(solve, chosen);
  AddSolveJoint(solve, model_of_kind, chosen);
  AddSolveAllocation(solve, chosen);
  AddSolveMemory(solve, model_of_kind, chosen);
  AddSolveSplit(solve, model_of_kind, chosen);
}

}  // namespace ucudnn::ctl
