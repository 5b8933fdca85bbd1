#ifndef UCUDNN_CLIENT_CLI_SOLVE_H_
#define UCUDNN_CLIENT_CLI_SOLVE_H_

// The problems of `ucudnn solve`, one file each. Each function adds its command
// to `solve`; the command sets `chosen` when the arguments select it.

#include "client/cli/command.h"

namespace ucudnn::ctl {

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

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_SOLVE_H_
