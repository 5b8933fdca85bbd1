#include "device/training/task_runner.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"

namespace ucudnn {
namespace {

// ONNX's default; the readers of models keep no other.
constexpr double kDropoutRatio = 0.5;
// Prepared convolutions of earlier shapes.
constexpr std::size_t kMostKept = 4096;

// The algorithm that CostsAt calls `name`, which has the math appended where
// several have one name.
Result<Algorithm> AlgorithmOf(const TrainingGraph& graph, const Task& task,
                              BatchSize batch, const std::string& name) {
  for (const TaskCost& cost : CostsAt(graph, task, batch)) {
    if (cost.algorithm.name != name) continue;
    for (const MeasuredPoint& point : task.work.measured) {
      if (point.batch == batch && point.time == cost.time &&
          point.workspace == cost.workspace &&
          point.algorithm.math == cost.algorithm.math &&
          name.starts_with(point.algorithm.name)) {
        return point.algorithm;
      }
    }
  }
  return Fail(Code::kNotFound,
              "task '{}' has no measured algorithm '{}' for {} images",
              Excerpt(task.name, 200), Excerpt(name), batch.count());
}

}  // namespace

Result<Convolution*> TaskRunner::PreparedConvolution(
    const ConvProblem& problem, BatchSize batch, const Algorithm& algorithm,
    std::optional<Bytes> most) {
  std::unique_ptr<Convolution>& known =
      convolutions_[{problem, batch, algorithm}];
  if (known != nullptr) return known.get();
  auto prepared = device_.Prepare(problem, batch, algorithm);
  if (most && (!prepared || (*prepared)->workspace() > *most)) {
    UCUDNN_ASSIGN_OR_RETURN(const Candidate suggested,
                            SuggestWithin(device_, problem, batch, *most,
                                          kDefaultMaxError, &errors_));
    prepared = device_.Prepare(problem, batch, suggested.algorithm);
  }
  if (!prepared) return tl::unexpected<Error>(std::move(prepared).error());
  known = *std::move(prepared);
  return known.get();
}

void TaskRunner::Replace(std::span<const TaskOperation> operations) {
  operations_ = operations;
  if (convolutions_.size() > kMostKept) convolutions_.clear();
}

Result<PreparedParts> TaskRunner::Prepare(std::size_t task, BatchSize batch,
                                          std::span<const TaskPart> parts,
                                          std::optional<Bytes> most) {
  PreparedParts prepared;
  const TaskOperation& operation = operations_[task];
  if (operation.what != TaskOperator::kConvolution) return prepared;
  prepared.strides = PackedStrides(*operation.conv);
  std::vector<TaskPart> runs(parts.begin(), parts.end());
  if (runs.empty()) {
    // The only way there is.
    const std::vector<TaskCost> costs =
        CostsAt(graph_, graph_.tasks[task], batch);
    runs.push_back(
        {batch, 1, costs.empty() ? "" : costs.back().algorithm.name});
  }
  for (const TaskPart& part : runs) {
    UCUDNN_ASSIGN_OR_RETURN(
        const Algorithm algorithm,
        AlgorithmOf(graph_, graph_.tasks[task], part.batch, part.algorithm));
    UCUDNN_ASSIGN_OR_RETURN(
        Convolution* const convolution,
        PreparedConvolution(*operation.conv, part.batch, algorithm, most));
    prepared.steps.push_back({convolution, part.batch.count(), part.count});
    prepared.workspace = std::max(prepared.workspace, convolution->workspace());
  }
  return prepared;
}

Status TaskRunner::Run(std::size_t task, std::span<float* const> blocks,
                       const PreparedParts& parts, void* workspace,
                       Bytes workspace_size, const RoundState& state) {
  const TaskOperation& operation = operations_[task];
  if (operation.what == TaskOperator::kUpdate) {
    return RunUpdate(operation, blocks, state);
  }
  if (operation.what == TaskOperator::kLoss) {
    return operators_.SoftmaxLoss(
        state.batch, operation.input, blocks[operation.x.at(0)],
        reinterpret_cast<const std::int32_t*>(blocks[*operation.labels]),
        state.loss_scale, blocks[*operation.dx], state.probabilities);
  }
  if (operation.what == TaskOperator::kConvolution) {
    return RunConvolution(operation, blocks, parts, workspace, workspace_size,
                          state);
  }
  return operation.kind == TaskKind::kForward
             ? RunForward(task, operation, blocks, state)
             : RunBackward(operation, blocks, state);
}

Status TaskRunner::RunUpdate(const TaskOperation& operation,
                             std::span<float* const> blocks,
                             const RoundState& state) {
  float* const w = blocks[*operation.w];
  UCUDNN_RETURN_IF_ERROR(operators_.Update(
      operation.trained, {.rate = state.rate, .momentum = state.momentum},
      blocks[*operation.dw], operation.v ? blocks[*operation.v] : nullptr, w));
  const BatchSize images =
      state.shared != nullptr ? state.shared->images() : state.batch;
  for (const StatisticsBlock& statistics : operation.statistics) {
    UCUDNN_RETURN_IF_ERROR(operators_.UpdateRunning(
        operation.normalisation, blocks[statistics.block],
        images.count() * statistics.pixels, operation.running_momentum,
        w + operation.trained));
  }
  return {};
}

Status TaskRunner::NormaliseForward(std::size_t task,
                                    std::span<float* const> blocks,
                                    const RoundState& state) {
  const TaskOperation& operation = operations_[task];
  const Normalisation& normalisation = operation.normalisation;
  const float* const x = blocks[operation.x.at(0)];
  const float* const w = blocks[*operation.w];
  float* const y = blocks[*operation.y];
  float* const statistics = blocks[operation.statistics.at(0).block];
  if (state.infers) {
    return operators_.NormaliseByRunning(state.batch, normalisation, x, w,
                                         w + operation.trained, y);
  }
  if (state.shared == nullptr) {
    return operators_.Normalise(state.batch, normalisation, x, w, y,
                                statistics);
  }
  const std::span<double> sums = state.shared->Forward(task);
  if (!state.reruns) {
    UCUDNN_RETURN_IF_ERROR(operators_.SumForNormalise(
        state.batch, normalisation.extent, x, sums.data()));
    UCUDNN_RETURN_IF_ERROR(state.shared->exchange().SumStatistics(sums));
  }
  return operators_.NormaliseBySums(
      state.batch, normalisation, x, sums.data(),
      state.shared->images().count() * normalisation.extent.pixels(), w, y,
      statistics);
}

Status TaskRunner::NormaliseBackward(const TaskOperation& operation,
                                     std::span<float* const> blocks, float beta,
                                     const RoundState& state) {
  const Normalisation& normalisation = operation.normalisation;
  const float* const x = blocks[operation.x.at(0)];
  const float* const dy = blocks[*operation.dy];
  const float* const statistics = blocks[operation.statistics.at(0).block];
  const float gradients_beta = state.adds ? 1.0F : 0.0F;
  if (state.shared == nullptr) {
    return operators_.NormaliseBackward(
        state.batch, normalisation, x, dy, blocks[*operation.w], statistics,
        beta, blocks[*operation.dx], gradients_beta, blocks[*operation.dw]);
  }
  const std::span<double> sums = state.shared->Backward(operation);
  UCUDNN_RETURN_IF_ERROR(operators_.SumForNormaliseBackward(
      state.batch, normalisation, x, dy, statistics, sums.data(),
      gradients_beta, blocks[*operation.dw]));
  UCUDNN_RETURN_IF_ERROR(state.shared->exchange().SumStatistics(sums));
  return operators_.NormaliseBackwardBySums(
      state.batch, normalisation, x, dy, sums.data(),
      state.shared->images().count() * normalisation.extent.pixels(),
      blocks[*operation.w], statistics, beta, blocks[*operation.dx]);
}

Status TaskRunner::RunConvolution(const TaskOperation& operation,
                                  std::span<float* const> blocks,
                                  const PreparedParts& parts, void* workspace,
                                  Bytes workspace_size,
                                  const RoundState& state) {
  ConvArgs args;
  switch (operation.kind) {
    case TaskKind::kForward:
      args.a = blocks[operation.x.at(0)];
      args.b = blocks[*operation.w];
      args.out = blocks[*operation.y];
      break;
    case TaskKind::kBackwardData: {
      args.a = blocks[*operation.dy];
      args.b = blocks[*operation.w];
      args.out = blocks[*operation.dx];
      UCUDNN_ASSIGN_OR_RETURN(
          args.beta, BetaOf(*operation.dx, operation.old, blocks, state.batch));
      break;
    }
    default:
      args.a = blocks[operation.x.at(0)];
      args.b = blocks[*operation.dy];
      // A transposed layer's filter is that of the convolution from its output.
      if (operation.transposed) std::swap(args.a, args.b);
      args.out = blocks[*operation.dw];
      args.beta = state.adds ? 1.0F : 0.0F;
      break;
  }
  MicroBatchProgress progress;
  UCUDNN_RETURN_IF_ERROR(RunSteps(parts.steps, parts.strides, args, workspace,
                                  workspace_size, &progress));
  if (operation.biases == 0) return {};
  if (operation.kind == TaskKind::kForward) {
    return operators_.AddBias(state.batch, operation.output,
                              blocks[*operation.w] + operation.filters,
                              blocks[*operation.y]);
  }
  if (operation.kind == TaskKind::kBackwardFilter) {
    return operators_.BiasBackward(state.batch, operation.output,
                                   blocks[*operation.dy], args.beta,
                                   blocks[*operation.dw] + operation.filters);
  }
  return {};
}

Result<float> TaskRunner::BetaOf(std::size_t dx, std::optional<std::size_t> old,
                                 std::span<float* const> blocks,
                                 BatchSize batch) {
  if (!old) return 0.0F;
  if (*old != dx) {
    const std::int64_t elements =
        graph_.blocks[dx].bytes_per_image.count() / std::int64_t{sizeof(float)};
    UCUDNN_RETURN_IF_ERROR(operators_.Blend(batch, elements, 1.0F, blocks[*old],
                                            0.0F, blocks[dx]));
  }
  return 1.0F;
}

Status TaskRunner::CopyParts(const TaskOperation& operation,
                             std::span<float* const> blocks, BatchSize batch) {
  const bool forward = operation.kind == TaskKind::kForward;
  const bool joins = (operation.what == TaskOperator::kConcat) == forward;
  const std::size_t whole = joins     ? (forward ? *operation.y : *operation.dx)
                            : forward ? operation.x.at(0)
                                      : *operation.dy;
  float beta = 0;
  if (joins && !forward) {
    UCUDNN_ASSIGN_OR_RETURN(beta, BetaOf(whole, operation.old, blocks, batch));
  }
  const std::int64_t planes = batch.count() * operation.planes;
  const PlaneStrides in_plane = {operation.plane, operation.row};
  if (operation.pads && forward) {
    UCUDNN_RETURN_IF_ERROR(device_.Fill(
        blocks[whole], 0,
        Bytes(planes * operation.plane * std::int64_t{sizeof(float)})));
  }
  for (const TensorPart& part : operation.parts) {
    const std::int64_t slice = part.height * part.width;
    const PlaneStrides packed = {part.depth * slice, part.width};
    float kept = beta;
    if (!joins) {
      UCUDNN_ASSIGN_OR_RETURN(kept,
                              BetaOf(part.block, part.old, blocks, batch));
    }
    for (std::int64_t z = 0; z < part.depth; ++z) {
      float* const in_whole = blocks[whole] + part.first + z * operation.slice;
      float* const alone = blocks[part.block] + z * slice;
      UCUDNN_RETURN_IF_ERROR(
          joins ? operators_.CopyRows(planes, part.height, part.width, alone,
                                      packed, kept, in_whole, in_plane)
                : operators_.CopyRows(planes, part.height, part.width, in_whole,
                                      in_plane, kept, alone, packed));
    }
  }
  return {};
}

Status TaskRunner::MultiplyBackward(const TaskOperation& operation,
                                    std::span<float* const> blocks,
                                    BatchSize batch) {
  const float* const dy = blocks[*operation.dy];
  const std::int64_t count = batch.count() * operation.output.elements();
  const auto& [large, small] = operation.factors;
  if (large) {
    UCUDNN_ASSIGN_OR_RETURN(const float beta,
                            BetaOf(large->block, large->old, blocks, batch));
    UCUDNN_RETURN_IF_ERROR(operators_.Multiply(count, operation.span, dy,
                                               blocks[operation.x.at(1)], beta,
                                               blocks[large->block]));
  }
  if (!small) return {};
  UCUDNN_ASSIGN_OR_RETURN(const float beta,
                          BetaOf(small->block, small->old, blocks, batch));
  return operators_.SumProducts(count / operation.span, operation.span, dy,
                                blocks[operation.x.at(0)], beta,
                                blocks[small->block]);
}

Status TaskRunner::RunForward(std::size_t task, const TaskOperation& operation,
                              std::span<float* const> blocks,
                              const RoundState& state) {
  const BatchSize batch = state.batch;
  if (!operation.parts.empty()) return CopyParts(operation, blocks, batch);
  const float* const x = blocks[operation.x.at(0)];
  float* const y = blocks[*operation.y];
  const std::int64_t elements = operation.output.elements();
  switch (operation.what) {
    case TaskOperator::kRelu:
      return operators_.Relu(batch, elements, x, y);
    case TaskOperator::kPool:
      return operators_.Pool(batch, operation.pooling, x, y);
    case TaskOperator::kNormalise:
      return NormaliseForward(task, blocks, state);
    case TaskOperator::kActivate:
      return operators_.Activate(batch, elements, operation.activation, x, y);
    case TaskOperator::kLocalResponse:
      return operators_.NormaliseLocally(batch, operation.response, x, y);
    case TaskOperator::kResize:
      return operators_.Resize(batch, operation.resizing, x, y);
    case TaskOperator::kMultiply:
      return operators_.Multiply(batch.count() * elements, operation.span, x,
                                 blocks[operation.x.at(1)], 0.0F, y);
    case TaskOperator::kDropout:
      if (state.infers) {
        return operators_.Blend(batch, elements, 1.0F, x, 0.0F, y);
      }
      return operators_.Dropout(
          batch, elements,
          {.seed = DropoutHash(static_cast<std::uint32_t>(task), state.step),
           .first = (state.before + state.first) * elements,
           .ratio = kDropoutRatio},
          x, y, reinterpret_cast<std::uint8_t*>(blocks[*operation.mask]));
    default:
      break;
  }
  // A sum.
  UCUDNN_RETURN_IF_ERROR(
      operators_.Blend(batch, elements, operation.copies, x, 0.0F, y));
  for (std::size_t i = 1; i < operation.x.size(); ++i) {
    UCUDNN_RETURN_IF_ERROR(operators_.Blend(batch, elements, 1.0F,
                                            blocks[operation.x[i]], 1.0F, y));
  }
  return {};
}

Status TaskRunner::RunBackward(const TaskOperation& operation,
                               std::span<float* const> blocks,
                               const RoundState& state) {
  const BatchSize batch = state.batch;
  if (!operation.parts.empty()) return CopyParts(operation, blocks, batch);
  if (operation.what == TaskOperator::kMultiply) {
    return MultiplyBackward(operation, blocks, batch);
  }
  const float* const dy = blocks[*operation.dy];
  float* const dx = blocks[*operation.dx];
  const std::int64_t elements = operation.input.elements();
  UCUDNN_ASSIGN_OR_RETURN(const float beta,
                          BetaOf(*operation.dx, operation.old, blocks, batch));
  const auto optional = [&](std::optional<std::size_t> block) {
    return block ? blocks[*block] : nullptr;
  };
  switch (operation.what) {
    case TaskOperator::kRelu:
      return operators_.ReluBackward(batch, elements, blocks[*operation.y], dy,
                                     beta, dx);
    case TaskOperator::kPool:
      return operators_.PoolBackward(
          batch, operation.pooling,
          operation.x.empty() ? nullptr : blocks[operation.x[0]],
          optional(operation.y), dy, beta, dx);
    case TaskOperator::kNormalise:
      return NormaliseBackward(operation, blocks, beta, state);
    case TaskOperator::kActivate:
      return operators_.ActivateBackward(
          batch, elements, operation.activation,
          blocks[operation.activation.saves_output() ? *operation.y
                                                     : operation.x.at(0)],
          dy, beta, dx);
    case TaskOperator::kResize:
      return operators_.ResizeBackward(batch, operation.resizing, dy, beta, dx);
    case TaskOperator::kLocalResponse:
      return operators_.NormaliseLocallyBackward(
          batch, operation.response, blocks[operation.x.at(0)],
          blocks[*operation.y], dy, beta, dx);
    case TaskOperator::kDropout:
      return operators_.DropoutBackward(
          batch, elements, kDropoutRatio, dy,
          reinterpret_cast<const std::uint8_t*>(blocks[*operation.mask]), dx);
    default:
      // The gradient of a sum is added to that of an operand.
      return operators_.Blend(batch, elements, 1.0F, dy, beta, dx);
  }
}

}  // namespace ucudnn
