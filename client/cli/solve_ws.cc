#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "base/plan/plan_json.h"
#include "client/cli/profile_options.h"
#include "client/cli/solve.h"
#include "solver/arena/concurrency.h"
#include "solver/arena/ws.h"

namespace ucudnn::ctl {
namespace {

struct WsOptions {
  ProfileOptions profile;
  std::string network;
};

// If the profile has several networks: the one named like the model file.
Result<Profile> ReadKernelsOf(ProfileOptions options, const Network& network) {
  UCUDNN_ASSIGN_OR_RETURN(const Profile profile,
                          OfInput(ReadProfileFile(options.profile)));
  if (options.filter.network.empty()) {
    std::set<std::string> names;
    for (const KernelProfile& kernel : profile.kernels) {
      names.insert(kernel.id.network);
    }
    if (names.size() > 1 && names.count(network.name) != 0) {
      options.filter.network = network.name;
    } else if (names.size() > 1) {
      return Fail(Code::kInvalidArgument,
                  "{}: has {} networks, none named '{}' like the model; "
                  "choose one with --profile-network",
                  options.profile, names.size(), network.name);
    }
  }
  return SelectFrom(profile, options);
}

// The network layer of each kernel: the layer of its name or, if the profile's
// names all differ from the network's, the layer in the same position.
Result<std::vector<LayerKernel>> MatchLayers(const Profile& profile,
                                             const Network& network) {
  std::map<std::string, std::size_t> by_name;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    by_name.emplace(network.layers[i].name, i);
  }
  std::map<std::string, std::size_t> places;
  std::string unknown;
  for (const KernelProfile& kernel : profile.kernels) {
    places.emplace(kernel.id.layer, places.size());
    if (by_name.count(kernel.id.layer) == 0) unknown = kernel.id.layer;
  }
  const bool by_place = !unknown.empty();
  if (by_place && places.size() != network.layers.size()) {
    return Fail(
        Code::kInvalidArgument,
        "the profile's layer '{}' is not in {}, whose {} convolutions start "
        "with '{}'; either use the model's layer names, or select as "
        "many layers ({} are selected), in the model's order",
        unknown, network.name, network.layers.size(), network.layers[0].name,
        places.size());
  }
  if (by_place) {
    std::fprintf(stderr,
                 "ucudnn: layer names differ from those of %s; layers are "
                 "matched by their order\n",
                 network.name.c_str());
  }
  std::vector<LayerKernel> kernels;
  for (const KernelProfile& kernel : profile.kernels) {
    kernels.push_back(
        {(by_place ? places : by_name).at(kernel.id.layer), kernel.id.op});
  }
  return kernels;
}

Status RunWs(const WsOptions& options) {
  const ProfileOptions& profile = options.profile;
  UCUDNN_ASSIGN_OR_RETURN(
      const Graph graph,
      OfInput(ReadGraphFile(options.network, profile.batch)));
  UCUDNN_ASSIGN_OR_RETURN(const PartialOrder order, ConvolutionOrder(graph));
  const Network network = NetworkOf(graph);
  UCUDNN_ASSIGN_OR_RETURN(const Profile kernels,
                          ReadKernelsOf(profile, network));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<LayerKernel> layers,
                          MatchLayers(kernels, network));
  UCUDNN_ASSIGN_OR_RETURN(const Concurrency concurrency,
                          OfTraining(Decompose(order), layers));
  if (!concurrency.exact) {
    std::fprintf(stderr,
                 "ucudnn: the branches of %s are not series-parallel; some "
                 "kernels that never run at once do not share workspace\n",
                 network.name.c_str());
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const WorkspacePlan plan,
      SolveWs(kernels, concurrency,
              {profile.batch, profile.workspace_limit, profile.policy}));
  return Print(profile.output, ToJson(plan),
               [&plan] { return PlanTable(plan); });
}

}  // namespace

void AddSolveWs(CLI::App* solve, Chosen* chosen) {
  CLI::App* command = solve->add_subcommand(
      "ws",
      "Divide mini-batches under one limit for an arena shared by kernels "
      "that never run at once");
  auto options = std::make_shared<WsOptions>();
  AddProfileOptions(command, &options->profile, &options->network);
  command->callback(
      [options, chosen] { *chosen = [options] { return RunWs(*options); }; });
}

}  // namespace ucudnn::ctl
