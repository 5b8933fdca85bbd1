// The main function of `ucudnn`.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "base/service/config_file.h"
#include "base/service/help.h"
#include "client/cli/command.h"
#include "client/cli/server/completion.h"
#include "client/cli/server/config.h"
#include "client/cli/server/server.h"
#include "client/cli/solve/solve.h"

namespace ucudnn::ctl {
namespace {

// Of a group, --help lists the commands together.
void Group(CLI::App& app, const std::string& group,
           const std::vector<std::string>& commands) {
  for (const std::string& command : commands) {
    app.get_subcommand(command)->group(group + " commands");
  }
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Measure, plan and apply micro-batched convolutions on mixed GPUs.");
  app.name("ucudnn");
  app.set_version_flag("--version", UCUDNN_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  ShowDefaults(app);
  Server server;
  app.add_option("--coordinator", server.coordinators,
                 "Coordinators to call, in order of preference")
      ->option_text("HOST:PORT[,...]")
      ->envname("UCUDNN_COORDINATOR");
  AddCredentialOptions(&app, &server.credentials);
  Chosen chosen;
  AddClusterCommands(app, server, &chosen);
  AddNetworkCommands(app, server, &chosen);
  AddStepCommands(app, server, &chosen);
  AddProfileCommands(app, server, &chosen);
  AddPlanCommands(app, server, &chosen);
  AddExplainCommand(app, server, &chosen);
  AddTaskCommands(app, server, &chosen);
  AddJobCommands(app, server, &chosen);
  AddPruneCommand(app, server, &chosen);
  AddShowCommands(app, server, &chosen);
  AddSolveCommands(
      app,
      [&server](const std::string& kind) {
        return MeasuredModel(server, kind);
      },
      &chosen);
  AddAllocateCommand(app, &chosen);
  AddCheckCommand(app, &chosen);
  AddCompletionCommand(app, &chosen);
  AddHelpCommand(app, &chosen);
  AddConfigCommand(app, server, &chosen);
  Group(
      app, "Planning",
      {"networks", "steps", "profiles", "plan", "measure", "plans", "explain"});
  Group(app, "Job", {"jobs", "replan"});
  Group(app, "Measuring", {"tasks", "campaigns", "cancel"});
  Group(app, "Cluster",
        {"nodes", "cordon", "drain", "resume", "devices", "kinds", "status",
         "prune", "history"});
  Group(app, "Offline", {"solve", "allocate", "check"});
  Group(app, "Other", {"show", "config", "completion", "help"});
  if (const Status read = ReadConfig(app); !read) {
    std::fprintf(stderr, "ucudnn: %s\n", read.error().message.c_str());
    return 2;
  }
  if (AnswerCompletion(
          app, argc, argv,
          NamesFrom(server.coordinators, server.credentials, argc, argv))) {
    return 0;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return EndParsing(app, error, argc, argv);
  }
  const Status status = chosen();
  if (!status) {
    // What is not allowed has the name of a call, so name the command too.
    const bool refused = status.error().code == Code::kPermissionDenied;
    std::fprintf(stderr, "%s: %s\n",
                 refused ? CalledCommand(app).c_str() : "ucudnn",
                 OneLine(status.error().message).c_str());
  }
  return ExitStatus(status);
}

}  // namespace
}  // namespace ucudnn::ctl

int main(int argc, char** argv) { return ucudnn::ctl::Main(argc, argv); }
