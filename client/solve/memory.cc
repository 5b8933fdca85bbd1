#include "client/solve/memory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/files/file.h"
#include "base/onnx/network_file.h"
#include "base/plan/plan.h"
#include "base/service/time_limit.h"
#include "base/training/costs.h"
#include "base/training/json.h"
#include "base/training/task_times.h"
#include "solver/memory/modnn/host_updates.h"
#include "solver/memory/split/split.h"

namespace ucudnn {
namespace {

template <class T>
Result<T> In(std::string_view place, Result<T> result) {
  if (!result) return Within(place, std::move(result).error());
  return result;
}

Result<Graph> Split(const MemoryProblem& problem, const Graph& graph) {
  UCUDNN_ASSIGN_OR_RETURN(const SplitOptions split,
                          ParseSplitOptions(problem.split));
  return SplitGraph(graph, split);
}

// The policies that the problem names; of all, those for its number of GPUs.
Result<std::vector<const MemoryPolicy*>> Find(const MemoryProblem& problem) {
  std::vector<const MemoryPolicy*> found;
  if (problem.policy == "all") {
    for (const MemoryPolicy& policy : MemoryPolicies()) {
      const bool plans = problem.request.gpus == 1 || policy.several_gpus;
      if (policy.compared && plans) found.push_back(&policy);
    }
    return found;
  }
  const Result<const MemoryPolicy*> policy = PolicyOf(problem);
  if (!policy) {
    Error error = policy.error();
    error.message += ", or all";
    return tl::unexpected<Error>(std::move(error));
  }
  found.push_back(*policy);
  return found;
}

// Of all policies.
nlohmann::ordered_json PlansJson(const MemoryAnswer& answer) {
  nlohmann::ordered_json plans = nlohmann::ordered_json::array();
  for (const MemoryAnswer::Tried& t : answer.tried) {
    if (t.plan) {
      plans.push_back(ToJson(*t.plan, answer.graph));
    } else {
      plans.push_back({{"policy", t.policy->name},
                       {"feasible", false},
                       {"reason", t.plan.error().message}});
    }
  }
  return plans;
}

}  // namespace

Result<Graph> ReadNetwork(const MemoryProblem& problem) {
  const auto& [contents, source] = problem.network;
  UCUDNN_ASSIGN_OR_RETURN(
      const std::string sized,
      OfInput(WithShapes(contents, problem.shapes, source)));
  return OfInput(
      ParseGraph(sized, problem.network_name, problem.batch, source));
}

Result<MemoryMeasurements> MeasurementsOf(const MemoryProblem& problem,
                                          const Graph& network) {
  MemoryMeasurements measured;
  if (!problem.profile) return measured;
  const auto& [contents, source] = *problem.profile;
  UCUDNN_ASSIGN_OR_RETURN(const Profile profile,
                          ParseProfileCsv(contents, source));
  ProfileFilter rows = problem.rows;
  rows.precision = Name(problem.precision);
  const bool has_network =
      std::ranges::any_of(profile.kernels, [&](const KernelProfile& kernel) {
        return kernel.id.network == network.name;
      });
  if (rows.network.empty() && has_network) rows.network = network.name;
  UCUDNN_ASSIGN_OR_RETURN(measured.convolutions,
                          In(source, OfInput(SelectKernels(profile, rows))));
  // Other tasks' times are of the same device.
  rows.device = measured.convolutions.kernels.front().id.device;
  UCUDNN_ASSIGN_OR_RETURN(measured.others,
                          ParseTaskTimesCsv(contents, rows, source));
  return measured;
}

Result<TrainingGraph> TrainingOf(const MemoryProblem& problem,
                                 const Graph& network) {
  UCUDNN_ASSIGN_OR_RETURN(
      TrainingGraph graph,
      OfInput(In(
          problem.network.source,
          BuildTrainingGraph(network, {problem.precision, problem.fusion}))));
  UCUDNN_RETURN_IF_ERROR(SetDevice(problem.device, &graph));
  return graph;
}

Status SetCosts(const MemoryMeasurements& measured, TrainingGraph* graph) {
  if (measured.convolutions.kernels.empty()) return {};
  UCUDNN_RETURN_IF_ERROR(SetConvolutionCosts(measured.convolutions, graph));
  SetTaskCosts(measured.others, graph);
  return {};
}

Result<JointMemoryKind> KindOf(const MemoryProblem& problem) {
  JointMemoryKind kind;
  if (problem.graph) {
    UCUDNN_ASSIGN_OR_RETURN(kind.graph,
                            OfInput(ParseTrainingGraph(problem.graph->contents,
                                                       problem.graph->source)));
    return kind;
  }
  UCUDNN_ASSIGN_OR_RETURN(Graph network, ReadNetwork(problem));
  UCUDNN_ASSIGN_OR_RETURN(MemoryMeasurements measured,
                          MeasurementsOf(problem, network));
  if (!problem.split.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(
        network, In(problem.option_prefix + "split", Split(problem, network)));
  }
  UCUDNN_ASSIGN_OR_RETURN(kind.graph, TrainingOf(problem, network));
  UCUDNN_RETURN_IF_ERROR(SetCosts(measured, &kind.graph));
  kind.convolutions = std::move(measured.convolutions);
  return kind;
}

Result<const MemoryPolicy*> PolicyOf(const MemoryProblem& problem) {
  const Result<const MemoryPolicy*> policy = FindMemoryPolicy(problem.policy);
  if (policy) return policy;
  return Fail(Code::kInvalidArgument, "{}policy: {}", problem.option_prefix,
              policy.error().message);
}

const MemoryPlan* MemoryAnswer::Fastest() const {
  const MemoryPlan* fastest = nullptr;
  for (const Tried& t : tried) {
    if (!t.plan) continue;
    if (fastest == nullptr || t.plan->time < fastest->time) fastest = &*t.plan;
  }
  return fastest;
}

Status MemoryAnswer::HasPlan() const {
  if (Fastest() != nullptr) return {};
  Error error = tried.front().plan.error();
  for (std::size_t i = 1; i < tried.size(); ++i) {
    error.message += "; " + tried[i].plan.error().message;
  }
  return tl::unexpected<Error>(std::move(error));
}

Result<MemoryAnswer> SolveMemory(const MemoryProblem& problem) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<const MemoryPolicy*> policies,
                          Find(problem));
  MemoryAnswer answer;
  answer.all = problem.policy == "all";
  UCUDNN_ASSIGN_OR_RETURN(const JointMemoryKind kind, KindOf(problem));
  UCUDNN_ASSIGN_OR_RETURN(answer.graph,
                          In(problem.option_prefix + "gpus",
                             PartOfOneGpu(kind.graph, problem.request.gpus)));
  if (std::string note = AccuracyNote(kind.convolutions); !note.empty()) {
    answer.notes.push_back(std::move(note));
  }
  MemoryRequest request = problem.request;
  if (request.budget == Bytes(0)) request.budget = answer.graph.device.memory;
  const TimeLimit limit(problem.time_limit, problem.request.stop);
  request.stop = limit.token();
  for (const MemoryPolicy* policy : policies) {
    answer.tried.push_back(
        {policy, PlanMemory(answer.graph, request, *policy)});
  }
  return answer;
}

nlohmann::ordered_json GraphJson(const MemoryAnswer& answer) {
  std::set<BatchSize> batches = {answer.graph.batch};
  for (const MemoryAnswer::Tried& t : answer.tried) {
    if (!t.plan) continue;
    const auto used = BatchesOf(*t.plan, answer.graph.batch);
    batches.insert(used.begin(), used.end());
  }
  return ToJson(answer.graph, {batches.begin(), batches.end()});
}

nlohmann::ordered_json ToJson(const MemoryAnswer& answer) {
  nlohmann::ordered_json json;
  if (answer.all) {
    json = {{"plans", PlansJson(answer)}, {"graph", GraphJson(answer)}};
  } else {
    json = ToJsonWithGraph(*answer.tried.front().plan, answer.graph);
  }
  if (!answer.notes.empty()) json["notes"] = answer.notes;
  return json;
}

}  // namespace ucudnn
