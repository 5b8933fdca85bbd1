#ifndef UCUDNN_CLIENT_CLI_RANKS_MAIN_H_
#define UCUDNN_CLIENT_CLI_RANKS_MAIN_H_

// The main function of programs that run on MPI ranks.

#include <CLI/CLI.hpp>
#include <functional>

#include "base/result.h"

namespace ucudnn::ctl {

// Initialises MPI, parses the arguments, which are the same on all ranks, and
// runs `body` on each rank. Rank 0 prints errors, prefixed with the program's
// name. Returns the process's exit status: 2 if the arguments are malformed,
// otherwise ExitStatus of the body's result, the same on all ranks. Aborts them
// if they did not agree in time.
int RunOnRanks(CLI::App& app, int argc, char** argv,
               const std::function<Status()>& body);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_RANKS_MAIN_H_
