#ifndef UCUDNN_CLIENT_CLI_SERVER_H_
#define UCUDNN_CLIENT_CLI_SERVER_H_

// The commands that ask a coordinator.

#include <memory>
#include <string>

#include "base/service/signals.h"
#include "client/cli/command.h"
#include "client/rpc/connection.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn::ctl {

// Where the coordinator is, for all commands of one command line.
struct Server {
  std::string coordinators = "127.0.0.1:7460";

  // From then on Ctrl-C and SIGTERM end calls with kCancelled, instead of the
  // command.
  Result<std::unique_ptr<Connection>> Connect() const {
    return Connection::Open(coordinators, "--coordinator", StopOnSignals());
  }
};

// nodes, devices, status.
void AddClusterCommands(CLI::App& app, const Server& server, Chosen* chosen);
// networks, networks put.
void AddNetworkCommands(CLI::App& app, const Server& server, Chosen* chosen);
// profiles, profiles export|import.
void AddProfileCommands(CLI::App& app, const Server& server, Chosen* chosen);
// plan, plans, measure.
void AddPlanCommands(CLI::App& app, const Server& server, Chosen* chosen);
// show node|device|network|profile|plan.
void AddJobCommands(CLI::App& app, const Server& server, Chosen* chosen);
void AddShowCommands(CLI::App& app, const Server& server, Chosen* chosen);

// The table of one plan: what each rank does, and the kernels of each kind.
std::string PlanText(const v1::Plan& plan);
// A job as `show job` prints it.
std::string JobText(const v1::Job& job);

// "3 s ago", from Unix milliseconds and the time now.
std::string Ago(std::int64_t then_ms);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_SERVER_H_
