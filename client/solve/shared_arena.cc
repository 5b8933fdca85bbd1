#include "client/solve/shared_arena.h"

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/files/file.h"
#include "base/network.h"
#include "base/plan/plan_json.h"
#include "solver/arena/concurrency.h"
#include "solver/arena/ws.h"

namespace ucudnn {
namespace {

Result<Profile> SelectOf(const Profile& profile, const Network& network,
                         const SharedArenaProblem& problem) {
  ProfileFilter rows = problem.rows;
  if (rows.network.empty()) {
    std::set<std::string> names;
    for (const KernelProfile& kernel : profile.kernels) {
      names.insert(kernel.id.network);
    }
    if (names.size() > 1 && names.count(network.name) != 0) {
      rows.network = network.name;
    } else if (names.size() > 1) {
      return Fail(Code::kInvalidArgument,
                  "{}: has {} networks, none named '{}' like the model; "
                  "choose one with {}",
                  problem.source, names.size(), network.name,
                  problem.network_option);
    }
  }
  // A selection that matches nothing is an error in the request.
  Result<Profile> selected = OfInput(SelectKernels(profile, rows));
  if (selected) return selected;
  return Within(problem.source, std::move(selected).error());
}

// The network layer of each kernel.
Result<std::vector<LayerKernel>> MatchLayers(const Profile& profile,
                                             const Network& network,
                                             std::vector<std::string>* notes) {
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
    notes->push_back(
        fmt::format("layer names differ from those of {}; layers are matched "
                    "by their order",
                    network.name));
  }
  std::vector<LayerKernel> kernels;
  for (const KernelProfile& kernel : profile.kernels) {
    kernels.push_back(
        {(by_place ? places : by_name).at(kernel.id.layer), kernel.id.op});
  }
  return kernels;
}

}  // namespace

Result<SharedArenaAnswer> SolveSharedArena(const Graph& graph,
                                           const Profile& profile,
                                           const SharedArenaProblem& problem) {
  SharedArenaAnswer answer;
  UCUDNN_ASSIGN_OR_RETURN(const PartialOrder order, ConvolutionOrder(graph));
  const Network network = NetworkOf(graph);
  UCUDNN_ASSIGN_OR_RETURN(const Profile kernels,
                          SelectOf(profile, network, problem));
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<LayerKernel> layers,
                          MatchLayers(kernels, network, &answer.notes));
  UCUDNN_ASSIGN_OR_RETURN(const Concurrency concurrency,
                          OfTraining(Decompose(order), layers));
  if (!concurrency.exact) {
    answer.notes.push_back(
        fmt::format("the branches of {} are not series-parallel; some kernels "
                    "that never run at once do not share workspace",
                    network.name));
  }
  UCUDNN_ASSIGN_OR_RETURN(answer.plan,
                          SolveWs(kernels, concurrency, problem.wr));
  if (std::string note = AccuracyNote(kernels, answer.plan); !note.empty()) {
    answer.notes.push_back(std::move(note));
  }
  return answer;
}

nlohmann::ordered_json ToJson(const SharedArenaAnswer& answer) {
  nlohmann::ordered_json json = ToJson(answer.plan);
  json["notes"] = answer.notes;
  return json;
}

}  // namespace ucudnn
