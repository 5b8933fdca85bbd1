#ifndef UCUDNN_CLIENT_SOLVE_MEMORY_H_
#define UCUDNN_CLIENT_SOLVE_MEMORY_H_

// Memory plans from the contents of files: everything that `ucudnn solve
// memory` and ucudnn_solve_memory (client/include/ucudnn/solve.h) do between
// their options and the answer.

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/conv_problem.h"
#include "base/graph.h"
#include "base/onnx/network_file.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/training/build.h"
#include "base/training/device_model.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "base/training/task_times.h"
#include "base/units.h"
#include "solver/joint_memory.h"
#include "solver/memory/policies.h"
#include "solver/memory/request.h"

namespace ucudnn {

// How long policies that search may take unless a limit is given.
inline constexpr std::chrono::seconds kMemoryTime{60};

// More GPUs than this share no host.
inline constexpr int kMaxMemoryGpus = 64;

struct MemoryProblem {
  // What an input holds, decompressed, and what errors call it.
  struct Input {
    std::string contents;
    std::string source;
  };

  // A training graph as JSON, with the costs of its tasks and the link. If it
  // is given, what tells of network, batch, device and measurements is not
  // used.
  std::optional<Input> graph;
  Input network;  // an ONNX model, or a chain of convolutions as CSV
  std::string network_name = "network";
  InputShapes shapes;  // of a model's inputs
  BatchSize batch;
  Precision precision = Precision::kFp32;
  Fusion fusion = Fusion::kNone;
  std::string split;  // as ParseSplitOptions reads it; empty: not split
  DeviceModel device;
  // Measurements as CSV; the device model estimates what they lack.
  std::optional<Input> profile;
  // Which rows of the profile count. Its precision is the problem's; if it
  // names no network, the one named like this is used if there is one.
  ProfileFilter rows;
  std::string policy = "best";  // "all": each in turn, to compare
  // A budget of 0 is the device's memory. Its `stop` ends the search, too.
  // `gpus` share the mini-batch and the link; the answer is for one of them.
  MemoryRequest request;
  std::chrono::milliseconds time_limit = kMemoryTime;
  // What errors put before an option's name, such as "--".
  std::string option_prefix;
};

struct MemoryAnswer {
  struct Tried {
    const MemoryPolicy* policy;
    Result<MemoryPlan> plan;
  };

  TrainingGraph graph;  // of several GPUs the part of one
  std::vector<Tried> tried;
  bool all = false;                     // whether all policies were asked for
  std::vector<std::string> notes = {};  // for people

  // The one that takes the least time; null if there is none.
  const MemoryPlan* Fastest() const;
  // Why there is no plan; success if there is one.
  Status HasPlan() const;
};

// What was measured of a network, by one device.
struct MemoryMeasurements {
  Profile convolutions = {};  // empty without a profile
  std::vector<TaskTime> others = {};
};

// The steps of KindOf: the network, not split; what the profile has of it; a
// network's training graph, that of `network` or of its parts, without costs;
// and the costs of these tasks. kInvalidArgument of the last: the profile has
// other convolutions.
Result<Graph> ReadNetwork(const MemoryProblem& problem);
Result<MemoryMeasurements> MeasurementsOf(const MemoryProblem& problem,
                                          const Graph& network);
Result<TrainingGraph> TrainingOf(const MemoryProblem& problem,
                                 const Graph& network);
Status SetCosts(const MemoryMeasurements& measured, TrainingGraph* graph);

// The training graph of the problem, with its device and costs, and the
// convolutions' measurements, if there are any; the policy that it names, other
// than "all". Errors as of SolveMemory.
Result<JointMemoryKind> KindOf(const MemoryProblem& problem);
Result<const MemoryPolicy*> PolicyOf(const MemoryProblem& problem);

// kInvalidArgument, naming the input or option, its value and what is accepted,
// where one of them is malformed or does not fit the others. A policy that has
// no plan is no error; see HasPlan. Thread-safe.
Result<MemoryAnswer> SolveMemory(const MemoryProblem& problem);

// The training graph, with the costs of every batch that a plan runs.
nlohmann::ordered_json GraphJson(const MemoryAnswer& answer);

// The plan, with the graph as its field "graph", or, of all policies,
//   {"plans":[{...},{"policy":...,"feasible":false,"reason":...}],"graph":...}
// Besides "notes", if there are any.
nlohmann::ordered_json ToJson(const MemoryAnswer& answer);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SOLVE_MEMORY_H_
