#include "device/cudnn/graph/plan.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "device/cudnn/legacy/algorithms.h"

namespace ucudnn::cudnn {
namespace {

// Ids that connect a graph's tensors to the pointers of an execution.
enum Uid : std::int64_t { kInput = 1, kFilter = 2, kOutput = 3 };

struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t convolution, input, filter, output, alpha, beta;
};

OperationNames NamesOf(ConvOp op) {
  switch (op) {
    case ConvOp::kBackwardData:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvOp::kBackwardFilter:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    case ConvOp::kForward:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

Result<BackendDescriptor> Tensor(CudnnHandle& handle, Uid uid,
                                 const TensorShape& shape, cudnnDataType_t type,
                                 std::int64_t alignment) {
  const auto rank = static_cast<std::size_t>(shape.rank);
  return BackendBuilder(handle, CUDNN_BACKEND_TENSOR_DESCRIPTOR)
      .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .SetAll(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span(shape.dims).first(rank))
      .SetAll(CUDNN_ATTR_TENSOR_STRIDES, std::span(shape.strides).first(rank))
      .Set(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::int64_t{uid})
      .Set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment)
      .Finalize();
}

Result<BackendDescriptor> ConvolutionParameters(CudnnHandle& handle,
                                                const ConvShapes& shapes,
                                                cudnnDataType_t compute_type) {
  const auto n = static_cast<std::size_t>(shapes.spatial_dims);
  const auto padding = std::span(shapes.padding).first(n);
  return BackendBuilder(handle, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
      .Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, compute_type)
      .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::ssize(padding))
      .SetAll(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding)
      .SetAll(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding)
      .SetAll(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
              std::span(shapes.stride).first(n))
      .SetAll(CUDNN_ATTR_CONVOLUTION_DILATIONS,
              std::span(shapes.dilation).first(n))
      .Finalize();
}

Result<bool> RoundsFloats(const BackendDescriptor& engine) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT>
      notes = {};
  UCUDNN_ASSIGN_OR_RETURN(
      const std::int64_t count,
      engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                 static_cast<std::int64_t>(notes.size()), notes.data()));
  return std::any_of(
      notes.begin(),
      notes.begin() + std::min<std::int64_t>(count, notes.size()),
      [](cudnnBackendNumericalNote_t note) {
        return note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
               note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
      });
}

// The name and properties of an engine configuration that cuDNN suggested.
Result<Suggestion> SuggestionOf(const BackendDescriptor& configuration) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto engines,
      configuration.GetDescriptors(CUDNN_ATTR_ENGINECFG_ENGINE,
                                   CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1));
  if (engines.size() != 1) {
    return Fail(Code::kInternal, "an engine configuration has no engine");
  }
  EngineName name;
  UCUDNN_ASSIGN_OR_RETURN(
      name.engine, engines.front().GetInt(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  UCUDNN_ASSIGN_OR_RETURN(
      const auto choices,
      configuration.GetDescriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                   CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                                   CUDNN_KNOB_TYPE_COUNTS));
  for (const BackendDescriptor& choice : choices) {
    cudnnBackendKnobType_t type = CUDNN_KNOB_TYPE_COUNTS;
    UCUDNN_RETURN_IF_ERROR(choice.Get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                      CUDNN_TYPE_KNOB_TYPE, 1, &type));
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t value,
                            choice.GetInt(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
    name.knobs.push_back({static_cast<std::int64_t>(type), value});
  }
  std::sort(name.knobs.begin(), name.knobs.end());
  // If cuDNN does not say, we find out when the engine is built.
  return Suggestion{std::move(name),
                    RoundsFloats(engines.front()).value_or(false)};
}

}  // namespace

Result<std::unique_ptr<ConvolutionGraph>> ConvolutionGraph::Create(
    CudnnHandle& handle, const ConvProblem& problem, const ConvShapes& shapes,
    const OperandAlignment& alignment, cudnnDataType_t compute_type,
    Scaling scaling) {
  const cudnnDataType_t type = DataType(problem.precision);
  UCUDNN_ASSIGN_OR_RETURN(
      auto input, Tensor(handle, kInput, shapes.input, type, alignment.input));
  UCUDNN_ASSIGN_OR_RETURN(auto filter, Tensor(handle, kFilter, shapes.filter,
                                              type, alignment.filter));
  UCUDNN_ASSIGN_OR_RETURN(auto output, Tensor(handle, kOutput, shapes.output,
                                              type, alignment.output));
  UCUDNN_ASSIGN_OR_RETURN(auto convolution,
                          ConvolutionParameters(handle, shapes, compute_type));

  const OperationNames names = NamesOf(problem.op);
  UCUDNN_ASSIGN_OR_RETURN(auto operation,
                          BackendBuilder(handle, names.type)
                              .Set(names.convolution, convolution)
                              .Set(names.input, input)
                              .Set(names.filter, filter)
                              .Set(names.output, output)
                              .Set(names.alpha, scaling.alpha)
                              .Set(names.beta, scaling.beta)
                              .Finalize());
  UCUDNN_ASSIGN_OR_RETURN(
      auto graph,
      BackendBuilder(handle, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
          .Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle.get())
          .Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation)
          .Finalize());
  std::vector<BackendDescriptor> parts;
  parts.push_back(std::move(input));
  parts.push_back(std::move(filter));
  parts.push_back(std::move(output));
  parts.push_back(std::move(convolution));
  parts.push_back(std::move(operation));
  return std::unique_ptr<ConvolutionGraph>(new ConvolutionGraph(
      handle, problem.op, std::move(parts), std::move(graph)));
}

Result<std::vector<Suggestion>> ConvolutionGraph::Suggest(
    cudnnBackendHeurMode_t mode) const {
  BackendBuilder asked(handle_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  asked.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_)
      .Set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (handle_.slice_sms() > 0) {
    // Versions that ignore it suggest engines for the whole GPU.
    asked.Hint(CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET,
               static_cast<std::int32_t>(handle_.slice_sms()));
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto heuristics, asked.Finalize());
  UCUDNN_ASSIGN_OR_RETURN(
      const auto configurations,
      heuristics.GetDescriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, -1));
  std::vector<Suggestion> suggestions;
  for (const BackendDescriptor& configuration : configurations) {
    UCUDNN_ASSIGN_OR_RETURN(Suggestion suggestion, SuggestionOf(configuration));
    suggestions.push_back(std::move(suggestion));
  }
  return suggestions;
}

Result<EngineConfiguration> EngineConfiguration::Create(
    const ConvolutionGraph& graph, const EngineName& engine) {
  CudnnHandle& handle = graph.handle();
  UCUDNN_ASSIGN_OR_RETURN(
      auto chosen, BackendBuilder(handle, CUDNN_BACKEND_ENGINE_DESCRIPTOR)
                       .Set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.graph())
                       .Set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, engine.engine)
                       .Finalize());
  UCUDNN_ASSIGN_OR_RETURN(const bool rounds_floats, RoundsFloats(chosen));

  std::vector<BackendDescriptor> parts;
  for (const Knob& knob : engine.knobs) {
    UCUDNN_ASSIGN_OR_RETURN(
        auto choice,
        BackendBuilder(handle, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR)
            .Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                 static_cast<cudnnBackendKnobType_t>(knob.type))
            .Set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, knob.value)
            .Finalize());
    parts.push_back(std::move(choice));
  }
  BackendBuilder built(handle, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  built.Set(CUDNN_ATTR_ENGINECFG_ENGINE, chosen);
  if (!parts.empty()) built.SetAll(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, parts);
  UCUDNN_ASSIGN_OR_RETURN(auto configuration, built.Finalize());
  parts.push_back(std::move(chosen));
  return EngineConfiguration(std::move(parts), std::move(configuration),
                             rounds_floats);
}

Result<Bytes> EngineConfiguration::Workspace() const {
  UCUDNN_ASSIGN_OR_RETURN(
      const std::int64_t workspace,
      configuration_.GetInt(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE));
  return Bytes(workspace);
}

Result<std::unique_ptr<EngineConvolution>> EngineConvolution::Create(
    std::shared_ptr<const ConvolutionGraph> graph, const EngineName& engine) {
  CudnnHandle& handle = graph->handle();
  UCUDNN_ASSIGN_OR_RETURN(auto configuration,
                          EngineConfiguration::Create(*graph, engine));
  UCUDNN_ASSIGN_OR_RETURN(
      auto plan, BackendBuilder(handle, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
                     .Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle.get())
                     .Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                          configuration.configuration())
                     .Finalize());
  UCUDNN_ASSIGN_OR_RETURN(
      const std::int64_t workspace,
      plan.GetInt(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  return std::unique_ptr<EngineConvolution>(
      new EngineConvolution(std::move(graph), std::move(configuration),
                            std::move(plan), Bytes(workspace)));
}

Status EngineConvolution::Execute(const void* a, const void* b, void* out,
                                  void* workspace) const {
  CudnnHandle& handle = graph_->handle();
  constexpr std::array<std::int64_t, 3> kUids = {kInput, kFilter, kOutput};
  void* const first = const_cast<void*>(a);   // cuDNN's list of operands is of
  void* const second = const_cast<void*>(b);  // void*, whether read or written
  std::array<void*, 3> pointers = {};
  switch (graph_->op()) {
    case ConvOp::kForward:
      pointers = {first, second, out};
      break;
    case ConvOp::kBackwardData:
      pointers = {out, second, first};
      break;
    case ConvOp::kBackwardFilter:
      pointers = {first, out, second};
      break;
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const auto pack,
      BackendBuilder(handle, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
          .SetAll(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span(kUids))
          .SetAll(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::span(pointers))
          .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace)
          .Finalize());
  return handle.Call(handle.api().BackendExecute, handle.get(), plan_.get(),
                     pack.get());
}

}  // namespace ucudnn::cudnn
