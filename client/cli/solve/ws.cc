#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/plan/plan_json.h"
#include "client/cli/network_options.h"
#include "client/cli/profile_options.h"
#include "client/cli/solve/solve.h"
#include "client/solve/shared_arena.h"

namespace ucudnn::ctl {
namespace {

struct WsOptions {
  ProfileOptions profile;
  std::string network;
  InputShapes shapes;
};

Status RunWs(const WsOptions& options) {
  const ProfileOptions& asked = options.profile;
  UCUDNN_ASSIGN_OR_RETURN(
      const Graph graph,
      OfInput(ReadGraphFile(options.network, asked.batch, options.shapes)));
  UCUDNN_ASSIGN_OR_RETURN(const Profile profile,
                          OfInput(ReadProfileFile(asked.profile)));
  UCUDNN_ASSIGN_OR_RETURN(
      const SharedArenaAnswer answer,
      SolveSharedArena(
          graph, profile,
          {.wr = {asked.batch, asked.workspace_limit, asked.policy},
           .rows = asked.filter,
           .network_option = "--profile-network",
           .source = asked.profile}));
  return Print(asked.output, ToJson(answer), [&answer] {
    return PlanTable(answer.plan) + Lines(answer.notes);
  });
}

}  // namespace

void AddSolveWs(CLI::App* solve, Chosen* chosen) {
  CLI::App* command = solve->add_subcommand(
      "ws",
      "Divide mini-batches under one limit for an arena shared by kernels "
      "that never run at once");
  auto options = std::make_shared<WsOptions>();
  AddProfileOptions(command, &options->profile, &options->network);
  AddInputShapeOption(command, &options->shapes);
  OnChosen(command, chosen, [options] { return RunWs(*options); });
}

}  // namespace ucudnn::ctl
