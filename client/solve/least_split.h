#ifndef UCUDNN_CLIENT_SOLVE_LEAST_SPLIT_H_
#define UCUDNN_CLIENT_SOLVE_LEAST_SPLIT_H_

// The least split with which a network trains within a budget
// (solver/memory/split/least_split.h), from the contents of files: everything
// that `ucudnn solve split` does between its options and the answer.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "client/solve/memory.h"
#include "solver/memory/split/least_split.h"

namespace ucudnn {

struct LeastSplitRequest {
  // Its own split is not used; its policy is one, not "all".
  MemoryProblem memory;
  int max_parts = 16;
  bool stochastic = false;
  std::function<void(const SplitSearch& search, const std::string& what)>
      progress = [](const SplitSearch&, const std::string&) {};
};

struct LeastSplitAnswer {
  LeastSplit found;
  Bytes budget;
  std::vector<std::string> notes = {};  // for people

  // The plan of the whole network, if that fits, else of the split; null if
  // there is neither.
  const LeastSplit::Planned* Plan() const;
};

// How many splits were searched, and why others were not planned.
std::string Searched(const SplitSearch& search);

// kInvalidArgument as of SolveMemory. That nothing fits is no error; see
// HasPlan.
Result<LeastSplitAnswer> SolveLeastSplit(const LeastSplitRequest& request);

// kFailedPrecondition where no split fits, or none was found before the search
// was stopped, saying what was searched, and the least budget that a split
// reaches (Error::least).
Status HasPlan(const LeastSplitAnswer& answer);

// The plan with its training graph, as of SolveMemory, and what it is of:
//   {...,"split":{"split":"0.5,2,1","depth":0.5,"convolutions":8,
//    "all_convolutions":16,"last_node":"pool3","height_parts":2,
//    "width_parts":1,"stochastic":false},
//    "whole":{"fits":false,"time_us":...,...},"searched":{...}}
// `split` is null where the whole network fits; `whole` is the plan of the
// whole network within the least budget that it needs, without rounds.
nlohmann::ordered_json ToJson(const LeastSplitAnswer& answer);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SOLVE_LEAST_SPLIT_H_
