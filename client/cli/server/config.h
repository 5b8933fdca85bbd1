#ifndef UCUDNN_CLIENT_CLI_SERVER_CONFIG_H_
#define UCUDNN_CLIENT_CLI_SERVER_CONFIG_H_

// What people set once: ~/.config/ucudnn/config.toml, whose keys are the
// options of all commands. The command line and the environment override it.
//
//   coordinator = "coord-1:7460,coord-2:7460"
//   ca = "/home/alice/rack7.crt"

#include <string>

#include "client/cli/server/server.h"

namespace ucudnn::ctl {

// $XDG_CONFIG_HOME/ucudnn/config.toml, or that in ~/.config; empty if neither
// variable nor HOME is set.
std::string ConfigPath();

// Sets the variables behind the options of `app` from the file, if there is
// one. Call it before parsing. Errors of ReadConfigFile
// (base/service/config_file.h).
Status ReadConfig(CLI::App& app);

// Adds `ucudnn config` and `ucudnn config set`.
void AddConfigCommand(CLI::App& app, const Server& server, Chosen* chosen);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_SERVER_CONFIG_H_
