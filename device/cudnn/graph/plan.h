#ifndef UCUDNN_DEVICE_CUDNN_GRAPH_PLAN_H_
#define UCUDNN_DEVICE_CUDNN_GRAPH_PLAN_H_

// A convolution as an operation graph of cuDNN's graph API, the engines its
// heuristics suggest for it, and an engine prepared for execution. The calling
// thread is inside handle.Enter() throughout.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/graph/backend_descriptor.h"
#include "device/cudnn/graph/name.h"
#include "device/cudnn/handle.h"
#include "device/cudnn/shapes.h"
#include "device/device.h"

namespace ucudnn::cudnn {

// out = alpha * op(a, b) + beta * out; unlike in the legacy API, both scalars
// are part of the graph.
struct Scaling {
  float alpha = 1.0F;
  float beta = 0.0F;
  friend bool operator==(const Scaling&, const Scaling&) = default;
};

// The greatest power of two that divides the address of each operand.
struct OperandAlignment {
  std::int64_t input = 16;
  std::int64_t filter = 16;
  std::int64_t output = 16;
};

// An engine that the heuristics suggest.
struct Suggestion {
  EngineName engine;
  bool rounds_floats = false;  // as EngineConfiguration::rounds_floats
};

class ConvolutionGraph {
 public:
  // kUnimplemented if cuDNN does not support such a graph.
  static Result<std::unique_ptr<ConvolutionGraph>> Create(
      CudnnHandle& handle, const ConvProblem& problem, const ConvShapes& shapes,
      const OperandAlignment& alignment, cudnnDataType_t compute_type,
      Scaling scaling);

  // What the heuristics of one mode suggest, best first. Takes about a
  // millisecond of host time.
  Result<std::vector<Suggestion>> Suggest(cudnnBackendHeurMode_t mode) const;

  CudnnHandle& handle() const { return handle_; }
  const BackendDescriptor& graph() const { return graph_; }
  ConvOp op() const { return op_; }

 private:
  ConvolutionGraph(CudnnHandle& handle, ConvOp op,
                   std::vector<BackendDescriptor> parts,
                   BackendDescriptor graph)
      : handle_(handle),
        op_(op),
        parts_(std::move(parts)),
        graph_(std::move(graph)) {}

  CudnnHandle& handle_;
  const ConvOp op_;
  std::vector<BackendDescriptor> parts_;  // in order of creation
  BackendDescriptor graph_;
};

// An engine with its knobs, chosen for a graph but not prepared: tenths of a
// millisecond of host time.
class EngineConfiguration {
 public:
  // kUnimplemented if cuDNN rejects the engine already.
  static Result<EngineConfiguration> Create(const ConvolutionGraph& graph,
                                            const EngineName& engine);

  // That of the prepared engine, since cuDNN 9.2; an error before.
  Result<Bytes> Workspace() const;
  // Whether the engine rounds float operands for the matrix units: TF32.
  bool rounds_floats() const { return rounds_floats_; }
  const BackendDescriptor& configuration() const { return configuration_; }

 private:
  EngineConfiguration(std::vector<BackendDescriptor> parts,
                      BackendDescriptor configuration, bool rounds_floats)
      : parts_(std::move(parts)),
        configuration_(std::move(configuration)),
        rounds_floats_(rounds_floats) {}

  std::vector<BackendDescriptor> parts_;
  BackendDescriptor configuration_;
  bool rounds_floats_;
};

class EngineConvolution {
 public:
  // Prepares the engine, which may compile it and then take seconds.
  // kUnimplemented if the engine does not solve the graph.
  static Result<std::unique_ptr<EngineConvolution>> Create(
      std::shared_ptr<const ConvolutionGraph> graph, const EngineName& engine);

  Bytes workspace() const { return workspace_; }
  bool rounds_floats() const { return configuration_.rounds_floats(); }

  // Enqueues the convolution on the handle's stream.
  Status Execute(const void* a, const void* b, void* out,
                 void* workspace) const;

 private:
  EngineConvolution(std::shared_ptr<const ConvolutionGraph> graph,
                    EngineConfiguration configuration, BackendDescriptor plan,
                    Bytes workspace)
      : graph_(std::move(graph)),
        configuration_(std::move(configuration)),
        plan_(std::move(plan)),
        workspace_(workspace) {}

  std::shared_ptr<const ConvolutionGraph> graph_;
  EngineConfiguration configuration_;
  BackendDescriptor plan_;
  Bytes workspace_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_GRAPH_PLAN_H_
