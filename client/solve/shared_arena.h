#ifndef UCUDNN_CLIENT_SOLVE_SHARED_ARENA_H_
#define UCUDNN_CLIENT_SOLVE_SHARED_ARENA_H_

// WS (solver/arena/ws.h) from a model and a profile, for the command and the C
// interface. Pure.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/graph.h"
#include "base/plan/plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {

struct SharedArenaProblem {
  WrRequest wr;
  // Without a network, that of the model's name is used.
  ProfileFilter rows;
  std::string network_option;  // what errors call the network of `rows`
  std::string source;          // what errors call the profile
};

struct SharedArenaAnswer {
  WorkspacePlan plan;
  std::vector<std::string> notes;  // for people
};

// Layers are matched by name or, if the profile's names all differ from the
// model's, by position. kInvalidArgument if the profile and the model do not
// match, or if nothing is selected; errors of SelectKernels and SolveWs.
Result<SharedArenaAnswer> SolveSharedArena(const Graph& graph,
                                           const Profile& profile,
                                           const SharedArenaProblem& problem);

// The plan with its notes as "notes".
nlohmann::ordered_json ToJson(const SharedArenaAnswer& answer);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SOLVE_SHARED_ARENA_H_
