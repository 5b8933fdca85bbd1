#ifndef UCUDNN_CLIENT_CLI_HELP_H_
#define UCUDNN_CLIENT_CLI_HELP_H_

// `ucudnn help`, defaults in every --help, and what a mistyped command or
// option was meant to be.

#include <span>
#include <string>

#include "client/cli/command.h"

namespace ucudnn::ctl {

// Makes --help of `app`, and of the commands that are added afterwards, show
// the defaults of options.
void ShowDefaults(CLI::App& app);

// Adds `ucudnn help [COMMAND...]`.
void AddHelpCommand(CLI::App& app, Chosen* chosen);

// Names the first of the arguments (without the program's name) that is no
// command or option, and the one most like it: "there is no command 'plns'; did
// you mean plans?"; empty if there is no such argument.
std::string ExplainMistake(const CLI::App& app,
                           std::span<const char* const> arguments);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_HELP_H_
