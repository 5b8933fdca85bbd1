#include "client/training/prepared_training.h"

#include <algorithm>
#include <utility>

#include "base/onnx/network_file.h"
#include "base/service/time_limit.h"
#include "base/training/costs.h"
#include "base/training/dataflow.h"
#include "device/measure/device_model.h"

namespace ucudnn {
namespace {

constexpr std::string_view kUndivided = "undivided";

// Builds what trains `whole`.
Result<std::unique_ptr<PreparedTraining>> Build(
    Graph whole, const TrainingInput& input,
    std::optional<std::uint64_t> draw) {
  auto prepared = std::make_unique<PreparedTraining>();
  prepared->whole = std::move(whole);
  prepared->graph = prepared->whole;
  if (input.split) {
    UCUDNN_ASSIGN_OR_RETURN(prepared->graph,
                            SplitGraph(prepared->whole, *input.split, draw));
  }
  UCUDNN_ASSIGN_OR_RETURN(prepared->training,
                          BuildTrainingGraph(prepared->graph, input.graph));
  UCUDNN_ASSIGN_OR_RETURN(prepared->operations,
                          OperationsOf(prepared->graph, prepared->training));
  return prepared;
}

Status CheckInputs(const Graph& graph) {
  UCUDNN_ASSIGN_OR_RETURN(const Dataflow flow, Dataflow::Of(graph));
  const auto inputs = std::ranges::count_if(
      flow.values(), [](const Value& value) { return !value.producer; });
  if (inputs == 1) return {};
  return Fail(Code::kUnimplemented, "the model has {} inputs; one is accepted",
              inputs);
}

}  // namespace

bool PreparedTraining::NormalisesOverImages() const {
  return std::any_of(operations.begin(), operations.end(),
                     [](const TaskOperation& operation) {
                       return operation.what == TaskOperator::kNormalise;
                     });
}

Result<std::unique_ptr<PreparedTraining>> ReadTraining(
    const TrainingInput& input) {
  UCUDNN_ASSIGN_OR_RETURN(Graph graph, ParseGraph(input.contents, input.name,
                                                  input.batch, input.source));
  const Status checked = CheckInputs(graph);
  if (!checked) return Within(input.source, checked.error());
  auto built = Build(std::move(graph), input, std::nullopt);
  if (!built) return Within(input.source, std::move(built).error());
  PreparedTraining& prepared = **built;
  prepared.parameters =
      InitialParameters(prepared.training, prepared.operations, input.seed);
  return built;
}

Result<std::unique_ptr<PreparedTraining>> DrawTraining(
    const PreparedTraining& prepared, const TrainingInput& input,
    std::uint64_t draw) {
  return Build(prepared.whole, input, draw);
}

Status MeasureTraining(Device& device, Operators& operators,
                       const TrainingInput& input, const std::stop_token& stop,
                       PreparedTraining* prepared) {
  DeviceModel model;
  if (input.model) {
    model = *input.model;
  } else {
    UCUDNN_ASSIGN_OR_RETURN(model, MeasureDeviceModel(device, {}, stop));
  }
  TrainingGraph& training = prepared->training;
  UCUDNN_RETURN_IF_ERROR(SetDevice(model, &training));
  return MeasureTasks(
      device, operators, prepared->operations,
      {.batches = input.batches.empty() ? MeasuredBatches(training.batch)
                                        : input.batches,
       .max_workspace = input.max_workspace,
       .repeats = input.repeats,
       .exchanged_statistics = input.exchanged_statistics},
      stop, &training);
}

Result<const MemoryPolicy*> FindTrainingPolicy(std::string_view name) {
  auto policy = FindMemoryPolicy(name == kUndivided ? "baseline" : name);
  if (policy) return *policy;
  return Fail(Code::kInvalidArgument, "{}, or undivided",
              policy.error().message);
}

MemoryRequest MemoryRequestOf(const TrainingRequest& request) {
  MemoryRequest memory;
  memory.budget = request.budget;
  memory.recompute = request.recompute;
  memory.offload_weights = request.offload_weights;
  memory.streams = request.streams;
  return memory;
}

bool MustBeWhole(const PreparedTraining& prepared,
                 const TrainingRequest& request) {
  return request.policy == kUndivided || (prepared.NormalisesOverImages() &&
                                          !request.allow_sub_batch_statistics);
}

Result<MemoryPlan> PlanTraining(const PreparedTraining& prepared,
                                const TrainingRequest& request,
                                const std::stop_token& stop) {
  UCUDNN_ASSIGN_OR_RETURN(const MemoryPolicy* policy,
                          FindTrainingPolicy(request.policy));
  const TimeLimit limit(request.time_limit, stop);
  MemoryRequest memory = MemoryRequestOf(request);
  memory.stop = limit.token();
  if (MustBeWhole(prepared, request)) {
    memory.sub_batch = prepared.training.batch;
  }
  auto plan = PlanMemory(prepared.training, memory, *policy);
  if (!plan && memory.sub_batch && request.policy != kUndivided &&
      plan.error().code == Code::kFailedPrecondition) {
    return Fail(
        Code::kFailedPrecondition,
        "{}; {} normalises over its images, and only "
        "--batch-statistics rank would let it be trained in sub-batches",
        plan.error().message, prepared.training.network);
  }
  return plan;
}

}  // namespace ucudnn
