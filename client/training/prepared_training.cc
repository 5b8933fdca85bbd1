#include "client/training/prepared_training.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/onnx/network_file.h"
#include "base/service/time_limit.h"
#include "base/training/build.h"
#include "base/training/costs.h"
#include "device/measure/device_model.h"
#include "solver/memory/policies.h"

namespace ucudnn {
namespace {

constexpr std::string_view kUndivided = "undivided";

Result<const MemoryPolicy*> PolicyOf(std::string_view name) {
  auto policy = FindMemoryPolicy(name == kUndivided ? "baseline" : name);
  if (policy) return *policy;
  return Fail(Code::kInvalidArgument, "{}, or undivided",
              policy.error().message);
}

}  // namespace

bool PreparedTraining::NormalisesOverImages() const {
  return std::any_of(operations.begin(), operations.end(),
                     [](const TaskOperation& operation) {
                       return operation.what == TaskOperator::kNormalise;
                     });
}

Result<std::unique_ptr<PreparedTraining>> PrepareTraining(
    Device& device, Operators& operators, const TrainingInput& input,
    const std::stop_token& stop) {
  auto prepared = std::make_unique<PreparedTraining>();
  UCUDNN_ASSIGN_OR_RETURN(
      prepared->graph,
      ParseGraph(input.contents, input.name, input.batch, input.source));
  auto training =
      BuildTrainingGraph(prepared->graph, {.precision = input.precision});
  if (!training) return Within(input.source, std::move(training).error());
  prepared->training = *std::move(training);
  auto operations = OperationsOf(prepared->graph, prepared->training);
  if (!operations) return Within(input.source, std::move(operations).error());
  prepared->operations = *std::move(operations);
  DeviceModel model;
  if (input.model) {
    model = *input.model;
  } else {
    UCUDNN_ASSIGN_OR_RETURN(model, MeasureDeviceModel(device, {}, stop));
  }
  UCUDNN_RETURN_IF_ERROR(SetDevice(model, &prepared->training));
  UCUDNN_RETURN_IF_ERROR(MeasureTasks(
      device, operators, prepared->operations,
      {.batches =
           input.batches.empty() ? MeasuredBatches(input.batch) : input.batches,
       .max_workspace = input.max_workspace,
       .repeats = input.repeats},
      stop, &prepared->training));
  prepared->parameters =
      InitialParameters(prepared->training, prepared->operations, input.seed);
  prepared->images = MakeSyntheticBatch(prepared->training,
                                        prepared->operations, input.seed + 1);
  return prepared;
}

Status CheckTrainingPolicy(const std::string& policy) {
  auto known = PolicyOf(policy);
  if (known) return {};
  return tl::unexpected<Error>(std::move(known).error());
}

Result<MemoryPlan> PlanTraining(const PreparedTraining& prepared,
                                const TrainingRequest& request,
                                const std::stop_token& stop) {
  const bool undivided = request.policy == kUndivided;
  UCUDNN_ASSIGN_OR_RETURN(const MemoryPolicy* policy, PolicyOf(request.policy));
  const TimeLimit limit(request.time_limit, stop);
  MemoryRequest memory;
  memory.budget = request.budget;
  memory.stop = limit.token();
  memory.recompute = request.recompute;
  memory.offload_weights = request.offload_weights;
  if (undivided || (prepared.NormalisesOverImages() &&
                    !request.allow_sub_batch_statistics)) {
    memory.sub_batch = prepared.training.batch;
  }
  auto plan = PlanMemory(prepared.training, memory, *policy);
  if (!plan && memory.sub_batch && !undivided &&
      plan.error().code == Code::kFailedPrecondition) {
    return Fail(Code::kFailedPrecondition,
                "{}; {} normalises over its images, and only "
                "--allow-sub-batch-statistics would let it be trained in "
                "sub-batches",
                plan.error().message, prepared.training.network);
  }
  return plan;
}

}  // namespace ucudnn
