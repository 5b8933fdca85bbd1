#ifndef UCUDNN_CLIENT_CLI_SOLVE_SOLVE_H_
#define UCUDNN_CLIENT_CLI_SOLVE_SOLVE_H_

// The commands that need only files. Each function adds its command, which sets
// `chosen` when the arguments select it.

#include "client/cli/command.h"

namespace ucudnn::ctl {

// Adds `ucudnn solve ...` with a command for each problem.
void AddSolveCommands(CLI::App& app, const ModelOfKind& model_of_kind,
                      Chosen* chosen);

// Adds `ucudnn allocate`.
void AddAllocateCommand(CLI::App& app, Chosen* chosen);

// Adds `ucudnn check`.
void AddCheckCommand(CLI::App& app, Chosen* chosen);

// The problems of `ucudnn solve`, one file each.
void AddSolveWr(CLI::App* solve, Chosen* chosen);
void AddSolvePareto(CLI::App* solve, Chosen* chosen);
void AddSolveWs(CLI::App* solve, Chosen* chosen);
void AddSolveWd(CLI::App* solve, Chosen* chosen);
void AddSolveAssign(CLI::App* solve, Chosen* chosen);
void AddSolveJoint(CLI::App* solve, const ModelOfKind& model_of_kind,
                   Chosen* chosen);
void AddSolveAllocation(CLI::App* solve, Chosen* chosen);
void AddSolveMemory(CLI::App* solve, const ModelOfKind& model_of_kind,
                    Chosen* chosen);
void AddSolveSplit(CLI::App* solve, const ModelOfKind& model_of_kind,
                   Chosen* chosen);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_SOLVE_SOLVE_H_
