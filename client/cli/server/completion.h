#ifndef UCUDNN_CLIENT_CLI_SERVER_COMPLETION_H_
#define UCUDNN_CLIENT_CLI_SERVER_COMPLETION_H_

// `ucudnn completion` and `ucudnn help`, and the names that the coordinator
// knows, for completion (base/service/completion.h).

#include <string>

#include "base/service/completion.h"
#include "base/service/credentials.h"
#include "client/cli/command.h"

namespace ucudnn::ctl {

// Adds `ucudnn completion bash|zsh|fish`, which prints a script for the shell.
void AddCompletionCommand(CLI::App& app, Chosen* chosen);

// Adds `ucudnn help [COMMAND...]`.
void AddHelpCommand(CLI::App& app, Chosen* chosen);

// The values of options by what the help calls them: networks for NETWORK,
// kinds for KIND and so on, and the words of enumerations. Names come from the
// coordinator that the arguments or the environment name, or else from
// `coordinators`, asked with the environment's credentials or else
// `credentials`; there are none if it does not answer within a second.
ValuesOf NamesFrom(std::string coordinators, CredentialFiles credentials,
                   int argc, const char* const* argv);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_SERVER_COMPLETION_H_
