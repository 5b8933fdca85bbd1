#include "device/cudnn/graph/convolution.h"

#include <algorithm>
#include <utility>

#include "device/cudnn/flat_tensor.h"
#include "device/cudnn/legacy/algorithms.h"
#include "device/cudnn/legacy/legacy.h"
#include "device/run_checks.h"

namespace ucudnn::cudnn {
namespace {

constexpr Scaling kOverwrite = {1.0F, 0.0F};
constexpr Scaling kAccumulate = {1.0F, 1.0F};

// The arithmetic of an engine for a graph in the precision `asked`.
Precision ArithmeticOf(Precision asked, bool rounds_floats) {
  if (DataType(asked) != CUDNN_DATA_FLOAT) return asked;
  return rounds_floats ? Precision::kTf32 : Precision::kFp32;
}

// An engine that cannot add to a filter gradient writes it behind its own
// workspace, beginning here, from where it is added.
Bytes AddendOffset(Bytes workspace) { return RoundUp(workspace, 256_B); }

Bytes WithAddend(Bytes workspace, const ConvProblem& problem) {
  return AddendOffset(workspace) + Bytes(problem.geometry.filter_elements() *
                                         ElementBytes(problem.precision));
}

Result<EngineConfiguration> Configure(GraphProblem& problem, Precision asked,
                                      const EngineName& engine,
                                      Scaling scaling) {
  UCUDNN_ASSIGN_OR_RETURN(const auto graph,
                          problem.Graph(ComputeType(asked), scaling));
  return EngineConfiguration::Create(*graph, engine);
}

}  // namespace

Result<ForeseenEngine> ForeseeEngine(GraphProblem& problem, Precision asked,
                                     const EngineName& engine, bool scales) {
  UCUDNN_ASSIGN_OR_RETURN(const EngineConfiguration overwrite,
                          Configure(problem, asked, engine, kOverwrite));
  ForeseenEngine foreseen;
  foreseen.precision = ArithmeticOf(asked, overwrite.rounds_floats());
  UCUDNN_ASSIGN_OR_RETURN(foreseen.workspace, overwrite.Workspace());
  if (problem.problem().op == ConvOp::kBackwardFilter) {
    const auto accumulate =
        scales ? Configure(problem, asked, engine, kAccumulate)
               : Fail(Code::kUnimplemented, "it does not accumulate");
    if (accumulate) {
      UCUDNN_ASSIGN_OR_RETURN(const Bytes other, accumulate->Workspace());
      foreseen.workspace = std::max(foreseen.workspace, other);
    } else {
      UCUDNN_RETURN_IF_ERROR(problem.handle().CheckLost());
      foreseen.workspace = WithAddend(foreseen.workspace, problem.problem());
    }
  } else if (!scales) {
    UCUDNN_ASSIGN_OR_RETURN(const Candidate* substitute,
                            problem.Substitute(foreseen.precision));
    if (substitute != nullptr) {
      foreseen.workspace = std::max(foreseen.workspace, substitute->workspace);
    }
  }
  return foreseen;
}

GraphConvolution::GraphConvolution(std::shared_ptr<GraphProblem> problem,
                                   Precision asked, EngineName engine,
                                   bool scales)
    : problem_(std::move(problem)),
      asked_(asked),
      engine_(std::move(engine)),
      scales_(scales),
      precision_(asked) {}

GraphConvolution::~GraphConvolution() = default;

Result<std::unique_ptr<GraphConvolution>> GraphConvolution::Create(
    std::shared_ptr<GraphProblem> problem, Precision asked,
    const EngineName& engine, bool scales) {
  std::unique_ptr<GraphConvolution> result(
      new GraphConvolution(std::move(problem), asked, engine, scales));
  UCUDNN_ASSIGN_OR_RETURN(auto overwrite, result->Build(kOverwrite));
  result->precision_ = ArithmeticOf(asked, overwrite->rounds_floats());
  result->workspace_ = overwrite->workspace();
  result->ready_.push_back({kOverwrite, std::move(overwrite)});
  if (result->problem_->problem().op == ConvOp::kBackwardFilter) {
    UCUDNN_RETURN_IF_ERROR(result->ReserveForAccumulation());
  } else if (!scales) {
    UCUDNN_RETURN_IF_ERROR(result->ReserveForSubstitute());
  }
  return result;
}

Status GraphConvolution::ReserveForAccumulation() {
  if (scales_) {
    auto accumulate = Build(kAccumulate);
    if (accumulate) {
      workspace_ = std::max(workspace_, (*accumulate)->workspace());
      ready_.push_back({kAccumulate, *std::move(accumulate)});
      return {};
    }
    UCUDNN_RETURN_IF_ERROR(problem_->handle().CheckLost());
    scales_ = false;
  }
  addend_ = AddendOffset(workspace_);
  workspace_ = WithAddend(workspace_, problem_->problem());
  return {};
}

Status GraphConvolution::ReserveForSubstitute() {
  UCUDNN_ASSIGN_OR_RETURN(const Candidate* substitute,
                          problem_->Substitute(precision_));
  if (substitute != nullptr) {
    workspace_ = std::max(workspace_, substitute->workspace);
  }
  return {};
}

Result<std::unique_ptr<EngineConvolution>> GraphConvolution::Build(
    Scaling scaling) const {
  UCUDNN_ASSIGN_OR_RETURN(auto graph,
                          problem_->Graph(ComputeType(asked_), scaling));
  return EngineConvolution::Create(std::move(graph), engine_);
}

Result<const EngineConvolution*> GraphConvolution::PlanFor(Scaling scaling) {
  for (const Ready& ready : ready_) {
    if (ready.scaling == scaling) return ready.plan.get();
  }
  if (!scales_) return nullptr;
  auto plan = Build(scaling);
  UCUDNN_RETURN_IF_ERROR(problem_->handle().CheckLost());
  // The engine's check has verified that other pairs need no more workspace.
  if (plan && (*plan)->workspace() > workspace_) {
    plan = Fail(Code::kInternal, "a workspace of {} bytes, more than {}",
                (*plan)->workspace().count(), workspace_.count());
  }
  if (!plan) {
    return Fail(Code::kUnimplemented,
                "{} cannot compute {} at batch {} with alpha {} and beta {}: "
                "{}",
                ToString(engine_), ToString(problem_->problem()),
                problem_->batch().count(), scaling.alpha, scaling.beta,
                plan.error().message);
  }
  // Bounds the memory if a caller's scalars change all the time.
  constexpr std::size_t kMost = 16;
  if (ready_.size() >= kMost) ready_.erase(ready_.begin() + 2);
  ready_.push_back({scaling, *std::move(plan)});
  return ready_.back().plan.get();
}

Result<const FlatTensor*> GraphConvolution::Output() {
  if (output_ == nullptr) {
    // ShapesOf has checked that both fit.
    const TensorShape& shape = problem_->output_shape();
    UCUDNN_ASSIGN_OR_RETURN(
        output_,
        FlatTensor::Create(problem_->handle(), static_cast<int>(shape.dims[0]),
                           static_cast<int>(shape.strides[0]),
                           DataType(problem_->problem().precision)));
  }
  return output_.get();
}

Status GraphConvolution::RunSubstitute(const ConvArgs& args, void* workspace) {
  if (substitute_ == nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(const Candidate* substitute,
                            problem_->Substitute(precision_));
    if (substitute == nullptr || substitute->workspace > workspace_) {
      return Fail(Code::kUnimplemented,
                  "{} cannot compute {} with alpha {} and beta {}, and no "
                  "other algorithm of cuDNN can in {} bytes",
                  ToString(engine_), ToString(problem_->problem()), args.alpha,
                  args.beta, workspace_.count());
    }
    ConvProblem problem = problem_->problem();
    problem.precision = precision_;
    UCUDNN_ASSIGN_OR_RETURN(
        substitute_, PrepareLegacy(problem_->handle(), problem,
                                   problem_->batch(), substitute->algorithm));
  }
  return substitute_->Run(args, workspace, workspace_);
}

Status GraphConvolution::Run(const ConvArgs& args, void* workspace,
                             Bytes workspace_size) {
  UCUDNN_RETURN_IF_ERROR(CheckRun(args, workspace, workspace_size, workspace_));
  UCUDNN_RETURN_IF_ERROR(problem_->CheckAlignment(args));
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, problem_->handle().Enter());
  UCUDNN_ASSIGN_OR_RETURN(const EngineConvolution* plan,
                          PlanFor({args.alpha, args.beta}));
  if (plan != nullptr) {
    return plan->Execute(args.a, args.b, args.out, workspace);
  }
  if (args.beta == 0.0F) {
    UCUDNN_RETURN_IF_ERROR(
        overwrite().Execute(args.a, args.b, args.out, workspace));
    UCUDNN_ASSIGN_OR_RETURN(const FlatTensor* output, Output());
    return output->Scale(args.out, args.alpha);
  }
  if (addend_) {
    void* const addend = static_cast<char*>(workspace) + addend_->count();
    UCUDNN_RETURN_IF_ERROR(
        overwrite().Execute(args.a, args.b, addend, workspace));
    UCUDNN_ASSIGN_OR_RETURN(const FlatTensor* output, Output());
    return output->Add(args.alpha, addend, args.beta, args.out);
  }
  return RunSubstitute(args, workspace);
}

}  // namespace ucudnn::cudnn
