#ifndef UCUDNN_CLIENT_CLI_RANKS_MAIN_H_
#define UCUDNN_CLIENT_CLI_RANKS_MAIN_H_

// The main function of a program that runs on MPI ranks.

#include <CLI/CLI.hpp>
#include <functional>

#include "base/result.h"
#include "client/cli/command.h"

namespace ucudnn::ctl {

// Initialises MPI, parses the arguments, which are the same on all ranks, and
// runs `body` on each; rank 0 says what was wrong, with the program's name
// before it. What the process shall return: 2 if the arguments are malformed,
// else what `exit_status` makes of the body's result. Ends all ranks at once
// where they did not agree in time.
int RunOnRanks(
    CLI::App& app, int argc, char** argv, const std::function<Status()>& body,
    const std::function<int(const Status&)>& exit_status = ExitStatus);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_RANKS_MAIN_H_
