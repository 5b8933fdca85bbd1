#ifndef UCUDNN_CLIENT_CLI_SERVER_SERVER_H_
#define UCUDNN_CLIENT_CLI_SERVER_SERVER_H_

// The commands that call a coordinator.

#include <memory>
#include <string>
#include <utility>

#include "base/service/signals.h"
#include "base/training/device_model.h"
#include "client/cli/command.h"
#include "client/config/coordinators.h"
#include "proto/caller.h"
#include "ucudnn/v1/coordinator.grpc.pb.h"

namespace ucudnn::ctl {

// The calls of CoordinatorService:
//   connection->Call(&Stub::ListJobs, request)
using Connection = ServiceCaller<v1::CoordinatorService>;
using Stub = Connection::Stub;

// The coordinators to call, shared by all commands of a command line.
struct Server {
  std::string coordinators = "127.0.0.1:7460";
  CredentialFiles credentials = {};

  // After this, Ctrl-C and SIGTERM cancel calls (kCancelled) instead of killing
  // the process. kUnavailable if no coordinator answers within 2 s: people
  // mistype addresses.
  Result<std::unique_ptr<Connection>> Connect() const {
    UCUDNN_ASSIGN_OR_RETURN(auto list,
                            ParseCoordinators(coordinators, "--coordinator"));
    UCUDNN_ASSIGN_OR_RETURN(
        auto connection,
        Connection::Open(std::move(list), {.credentials = credentials,
                                           .stop = StopOnSignals()}));
    UCUDNN_RETURN_IF_ERROR(connection->Reach(Milliseconds(2000)));
    return connection;
  }
};

// Adds nodes, cordon, drain, resume, devices, kinds, status.
void AddClusterCommands(CLI::App& app, const Server& server, Chosen* chosen);
// Adds networks, networks put|rm|convert.
void AddNetworkCommands(CLI::App& app, const Server& server, Chosen* chosen);
// Adds steps, steps put|show|rm.
void AddStepCommands(CLI::App& app, const Server& server, Chosen* chosen);
// Adds profiles, profiles export|import.
void AddProfileCommands(CLI::App& app, const Server& server, Chosen* chosen);
// Adds tasks, campaigns, cancel, history.
void AddTaskCommands(CLI::App& app, const Server& server, Chosen* chosen);
// Adds plan, plans, plans rm, measure.
void AddPlanCommands(CLI::App& app, const Server& server, Chosen* chosen);
// Adds explain.
void AddExplainCommand(CLI::App& app, const Server& server, Chosen* chosen);
// Adds jobs, jobs rm, replan.
void AddJobCommands(CLI::App& app, const Server& server, Chosen* chosen);
// Adds prune.
void AddPruneCommand(CLI::App& app, const Server& server, Chosen* chosen);
// Adds show node|device|network|profile|plan|job.
void AddShowCommands(CLI::App& app, const Server& server, Chosen* chosen);

// The only kind of the online devices or, if none is online, of the known
// devices; `flag` names a kind otherwise. kFailedPrecondition if there is no
// device, kInvalidArgument if there are several kinds.
Result<std::string> OnlyKind(Connection& connection, std::string_view flag);
// What asks for the object with this id.
v1::GetRequest ById(const std::string& id);
// What is measured of a kind: all pages as one. Errors of the call.
Result<v1::Profile> WholeProfile(Connection& connection,
                                 const std::string& kind);
// The newest device model of a kind. kNotFound if there is none.
Result<DeviceModel> MeasuredModel(const Server& server,
                                  const std::string& kind);
// One plan as a table: what each rank does, and the kernels of each device
// kind.
std::string PlanText(const v1::Plan& plan);
// What a plan is for: a network's name, or "step NAME".
std::string PlannedText(const v1::PlanRequest& request);
// A job as `show job` prints it.
std::string JobText(const v1::Job& job);
// A Unix time in milliseconds as "3 s ago" or "in 4 h"; "-" for 0.
std::string Ago(std::int64_t then_ms);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_SERVER_SERVER_H_
