#include "device/cudnn/graph.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "device/cudnn/graph_name.h"
#include "device/cudnn/graph_plan.h"
#include "device/cudnn/legacy_algorithms.h"
#include "device/cudnn/run_checks.h"
#include "device/cudnn/shapes.h"

namespace ucudnn::cudnn {
namespace {

constexpr Scaling kOverwrite = {1.0F, 0.0F};
constexpr Scaling kAccumulate = {1.0F, 1.0F};

// A problem and batch with the graphs made for it so far, one for each scaling
// and type of arithmetic; plans share them.
class GraphFactory {
 public:
  static Result<std::shared_ptr<GraphFactory>> Create(
      CudnnHandle& handle, const ConvProblem& problem, BatchSize batch) {
    UCUDNN_ASSIGN_OR_RETURN(const ConvShapes shapes, ShapesOf(problem, batch));
    return std::make_shared<GraphFactory>(handle, problem, shapes);
  }
  GraphFactory(CudnnHandle& handle, const ConvProblem& problem,
               const ConvShapes& shapes)
      : handle_(handle), problem_(problem), shapes_(shapes) {
    const ConvGeometry& g = problem.geometry;
    alignment_.input = ImageAlignment(g.input_elements(), problem.precision);
    alignment_.output = ImageAlignment(g.output_elements(), problem.precision);
  }

  Result<std::shared_ptr<const ConvolutionGraph>> Graph(
      cudnnDataType_t compute_type, Scaling scaling) {
    for (const Made& made : made_) {
      if (made.compute_type == compute_type && made.scaling == scaling) {
        return made.graph;
      }
    }
    UCUDNN_ASSIGN_OR_RETURN(
        std::shared_ptr<const ConvolutionGraph> graph,
        ConvolutionGraph::Create(handle_, problem_, shapes_, alignment_,
                                 compute_type, scaling));
    made_.push_back({compute_type, scaling, graph});
    return graph;
  }

  CudnnHandle& handle() const { return handle_; }
  const ConvProblem& problem() const { return problem_; }
  const ConvShapes& shapes() const { return shapes_; }
  const OperandAlignment& alignment() const { return alignment_; }

 private:
  struct Made {
    cudnnDataType_t compute_type;
    Scaling scaling;
    std::shared_ptr<const ConvolutionGraph> graph;
  };

  CudnnHandle& handle_;
  const ConvProblem problem_;
  const ConvShapes shapes_;
  OperandAlignment alignment_;
  std::vector<Made> made_;
};

// The tensor that a convolution writes, as one row per outermost index.
class OutputTensor {
 public:
  static Result<std::unique_ptr<OutputTensor>> Create(
      CudnnHandle& handle, const ConvProblem& problem,
      const ConvShapes& shapes) {
    std::unique_ptr<OutputTensor> result(new OutputTensor(handle));
    const TensorShape& shape = problem.op == ConvOp::kForward ? shapes.output
                               : problem.op == ConvOp::kBackwardData
                                   ? shapes.input
                                   : shapes.filter;
    std::int64_t row = 1;
    for (int i = 1; i < shape.rank; ++i) row *= shape.dims[std::size_t(i)];
    // ShapesOf has seen to it that both fit.
    const auto rows = static_cast<int>(shape.dims[0]);
    const auto columns = static_cast<int>(row);
    const std::array<int, 4> dims = {rows, 1, 1, columns};
    const std::array<int, 4> strides = {columns, columns, columns, 1};
    const CudnnApi& api = handle.api();
    UCUDNN_RETURN_IF_ERROR(
        handle.Check(api.CreateTensorDescriptor(&result->descriptor_),
                     "cudnnCreateTensorDescriptor"));
    UCUDNN_RETURN_IF_ERROR(
        handle.Check(api.SetTensorNdDescriptor(result->descriptor_,
                                               DataType(problem.precision), 4,
                                               dims.data(), strides.data()),
                     "cudnnSetTensorNdDescriptor"));
    return result;
  }
  ~OutputTensor() {
    if (descriptor_ != nullptr) {
      (void)handle_.api().DestroyTensorDescriptor(descriptor_);
    }
  }
  OutputTensor(const OutputTensor&) = delete;
  OutputTensor& operator=(const OutputTensor&) = delete;

  Status Scale(void* data, float factor) const {
    return handle_.Check(
        handle_.api().ScaleTensor(handle_.get(), descriptor_, data, &factor),
        "cudnnScaleTensor");
  }
  // data = alpha * addend + beta * data
  Status Add(float alpha, const void* addend, float beta, void* data) const {
    return handle_.Check(
        handle_.api().AddTensor(handle_.get(), &alpha, descriptor_, addend,
                                &beta, descriptor_, data),
        "cudnnAddTensor");
  }

 private:
  explicit OutputTensor(CudnnHandle& handle) : handle_(handle) {}

  CudnnHandle& handle_;
  cudnnTensorDescriptor_t descriptor_ = nullptr;
};

class GraphConvolution : public Convolution {
 public:
  // Fails if the engine does not solve the problem.
  static Result<std::unique_ptr<GraphConvolution>> Create(
      std::shared_ptr<GraphFactory> factory, cudnnDataType_t compute_type,
      const EngineName& engine);

  Bytes workspace() const override { return workspace_; }
  bool rounds_floats() const { return overwrite().rounds_floats(); }
  Status Run(const ConvArgs& args, void* workspace,
             Bytes workspace_size) override;

 private:
  struct Ready {
    Scaling scaling;
    std::unique_ptr<ConvolutionPlan> plan;  // null if the engine refuses
  };

  GraphConvolution(std::shared_ptr<GraphFactory> factory,
                   cudnnDataType_t compute_type, EngineName engine)
      : factory_(std::move(factory)),
        compute_type_(compute_type),
        engine_(std::move(engine)) {}

  const ConvolutionPlan& overwrite() const { return *ready_.front().plan; }
  Result<std::unique_ptr<ConvolutionPlan>> Build(Scaling scaling) const;
  Result<const ConvolutionPlan*> PlanFor(Scaling scaling);
  Status CheckAlignment(const ConvArgs& args) const;
  Result<const OutputTensor*> Output();

  const std::shared_ptr<GraphFactory> factory_;
  const cudnnDataType_t compute_type_;
  const EngineName engine_;
  std::vector<Ready> ready_;              // kOverwrite first
  std::unique_ptr<OutputTensor> output_;  // made when it is first needed
  Bytes workspace_;
  // Where in the workspace a filter gradient waits to be added, if needed.
  std::optional<Bytes> addend_;
};

Result<std::unique_ptr<GraphConvolution>> GraphConvolution::Create(
    std::shared_ptr<GraphFactory> factory, cudnnDataType_t compute_type,
    const EngineName& engine) {
  std::unique_ptr<GraphConvolution> result(
      new GraphConvolution(factory, compute_type, engine));
  const ConvProblem& problem = factory->problem();
  UCUDNN_ASSIGN_OR_RETURN(auto overwrite, result->Build(kOverwrite));
  result->workspace_ = overwrite->workspace();
  result->ready_.push_back({kOverwrite, std::move(overwrite)});
  if (problem.op != ConvOp::kBackwardFilter) return result;

  if (auto accumulate = result->Build(kAccumulate)) {
    result->workspace_ =
        std::max(result->workspace_, (*accumulate)->workspace());
    result->ready_.push_back({kAccumulate, *std::move(accumulate)});
    return result;
  }
  UCUDNN_RETURN_IF_ERROR(factory->handle().CheckLost());
  constexpr std::int64_t kAlignment = 256;
  const std::int64_t offset =
      (result->workspace_.count() + kAlignment - 1) / kAlignment * kAlignment;
  result->addend_ = Bytes(offset);
  result->workspace_ = Bytes(offset + problem.geometry.filter_elements() *
                                          ElementBytes(problem.precision));
  result->ready_.push_back({kAccumulate, nullptr});
  return result;
}

Result<std::unique_ptr<ConvolutionPlan>> GraphConvolution::Build(
    Scaling scaling) const {
  UCUDNN_ASSIGN_OR_RETURN(auto graph, factory_->Graph(compute_type_, scaling));
  return ConvolutionPlan::Create(std::move(graph), engine_);
}

// Null if the engine cannot.
Result<const ConvolutionPlan*> GraphConvolution::PlanFor(Scaling scaling) {
  for (const Ready& ready : ready_) {
    if (ready.scaling == scaling) return ready.plan.get();
  }
  auto plan = Build(scaling);
  if (!plan) UCUDNN_RETURN_IF_ERROR(factory_->handle().CheckLost());
  if (plan && (*plan)->workspace() > workspace_) plan->reset();
  // A caller whose scalars change all the time must not fill our memory.
  constexpr std::size_t kMost = 16;
  if (ready_.size() >= kMost) ready_.erase(ready_.begin() + 2);
  ready_.push_back({scaling, plan ? *std::move(plan) : nullptr});
  return ready_.back().plan.get();
}

Status GraphConvolution::CheckAlignment(const ConvArgs& args) const {
  const OperandAlignment& alignment = factory_->alignment();
  std::array<std::pair<const void*, std::int64_t>, 3> operands = {};
  switch (factory_->problem().op) {
    case ConvOp::kForward:
      operands = {{{args.a, alignment.input},
                   {args.b, alignment.filter},
                   {args.out, alignment.output}}};
      break;
    case ConvOp::kBackwardData:
      operands = {{{args.a, alignment.output},
                   {args.b, alignment.filter},
                   {args.out, alignment.input}}};
      break;
    case ConvOp::kBackwardFilter:
      operands = {{{args.a, alignment.input},
                   {args.b, alignment.output},
                   {args.out, alignment.filter}}};
      break;
  }
  for (const auto& [pointer, bytes] : operands) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    if (address % static_cast<std::uintptr_t>(bytes) != 0) {
      return Fail(Code::kInvalidArgument,
                  "an operand at {:#x} is not aligned to {} bytes", address,
                  bytes);
    }
  }
  return {};
}

Result<const OutputTensor*> GraphConvolution::Output() {
  if (output_ == nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(
        output_, OutputTensor::Create(factory_->handle(), factory_->problem(),
                                      factory_->shapes()));
  }
  return output_.get();
}

Status GraphConvolution::Run(const ConvArgs& args, void* workspace,
                             Bytes workspace_size) {
  UCUDNN_RETURN_IF_ERROR(CheckRun(args, workspace, workspace_size, workspace_));
  UCUDNN_RETURN_IF_ERROR(CheckAlignment(args));
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, factory_->handle().Enter());
  UCUDNN_ASSIGN_OR_RETURN(const ConvolutionPlan* plan,
                          PlanFor({args.alpha, args.beta}));
  if (plan != nullptr) {
    return plan->Execute(args.a, args.b, args.out, workspace);
  }
  if (args.beta == 0.0F) {
    UCUDNN_RETURN_IF_ERROR(
        overwrite().Execute(args.a, args.b, args.out, workspace));
    UCUDNN_ASSIGN_OR_RETURN(const OutputTensor* output, Output());
    return output->Scale(args.out, args.alpha);
  }
  if (addend_) {
    void* const addend = static_cast<char*>(workspace) + addend_->count();
    UCUDNN_RETURN_IF_ERROR(
        overwrite().Execute(args.a, args.b, addend, workspace));
    UCUDNN_ASSIGN_OR_RETURN(const OutputTensor* output, Output());
    return output->Add(args.alpha, addend, args.beta, args.out);
  }
  return Fail(
      Code::kUnimplemented, "{} cannot compute {} with alpha {} and beta {}",
      ToString(engine_), ToString(factory_->problem()), args.alpha, args.beta);
}

// In which precisions an engine is looked for, and in which type it computes.
std::vector<Precision> Offered(Precision asked) {
  if (asked == Precision::kTrueHalf) return {asked, Precision::kPseudoHalf};
  return {asked};
}

// The precision of an engine made for `asked`.
Precision Actual(Precision asked, bool rounds_floats) {
  if (asked != Precision::kFp32 && asked != Precision::kTf32) return asked;
  return rounds_floats ? Precision::kTf32 : Precision::kFp32;
}

}  // namespace

Result<std::vector<Candidate>> ListGraph(CudnnHandle& handle,
                                         const ConvProblem& problem,
                                         BatchSize batch) {
  UCUDNN_ASSIGN_OR_RETURN(const auto factory,
                          GraphFactory::Create(handle, problem, batch));
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle.Enter());
  std::vector<Candidate> candidates;
  for (const Precision precision : Offered(problem.precision)) {
    const cudnnDataType_t compute_type = ComputeType(precision);
    const auto graph = factory->Graph(compute_type, kOverwrite);
    UCUDNN_RETURN_IF_ERROR(handle.CheckLost());
    if (!graph) continue;
    std::set<EngineName> seen;
    for (const cudnnBackendHeurMode_t mode :
         {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      const auto suggested = (*graph)->Suggest(mode);
      UCUDNN_RETURN_IF_ERROR(handle.CheckLost());
      if (!suggested) continue;
      for (const EngineName& engine : *suggested) {
        if (!seen.insert(engine).second) continue;
        const auto made =
            GraphConvolution::Create(factory, compute_type, engine);
        UCUDNN_RETURN_IF_ERROR(handle.CheckLost());
        if (!made) continue;
        const Precision actual = Actual(precision, (*made)->rounds_floats());
        if (!Admits(problem.precision, actual)) continue;
        candidates.push_back(
            {{ToString(engine), "", actual}, (*made)->workspace()});
      }
    }
  }
  return candidates;
}

Result<std::unique_ptr<Convolution>> PrepareGraph(CudnnHandle& handle,
                                                  const ConvProblem& problem,
                                                  BatchSize batch,
                                                  const Algorithm& algorithm) {
  const auto refuse = [&](std::string_view why) {
    return Fail(Code::kNotFound, "{} at batch {}: {} in {}: {}",
                ToString(problem), batch.count(), algorithm.name,
                Name(algorithm.precision), why);
  };
  const auto engine = ParseEngineName(algorithm.name);
  if (!engine) return refuse(engine.error().message);
  if (!algorithm.math.empty()) return refuse("an engine's math has no name");
  if (!Admits(problem.precision, algorithm.precision)) {
    return refuse("the precision is not what was asked for");
  }
  UCUDNN_ASSIGN_OR_RETURN(auto factory,
                          GraphFactory::Create(handle, problem, batch));
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, handle.Enter());
  auto made = GraphConvolution::Create(
      std::move(factory), ComputeType(algorithm.precision), *engine);
  if (!made) {
    UCUDNN_RETURN_IF_ERROR(handle.CheckLost());
    return refuse(made.error().message);
  }
  if (Actual(algorithm.precision, (*made)->rounds_floats()) !=
      algorithm.precision) {
    return refuse("the engine computes in another precision");
  }
  return *std::move(made);
}

}  // namespace ucudnn::cudnn
