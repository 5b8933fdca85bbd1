#ifndef UCUDNN_DEVICE_CUDNN_GRAPH_CONVOLUTION_H_
#define UCUDNN_DEVICE_CUDNN_GRAPH_CONVOLUTION_H_

// An engine of the graph interface made ready for a problem and batch, under
// any alpha and beta. Both scalars are part of cuDNN's graphs, so there is a
// plan for each pair:
//
//   1, 0                     made at once: an engine that refuses is not one
//   1, 1 of backward_filter  made at once, since micro-batches accumulate
//   any other pair           made when it is first run, which costs
//                            milliseconds of host time
//
// Of an engine that was not seen to honour such pairs (engine_check.h), or
// refuses the second, only the first plan is used:
//
//   beta 0                   the output is scaled afterwards
//   backward_filter          the workspace also holds one filter, from which
//                            the gradient is added
//   else                     the first interface's algorithm that needs least
//                            workspace, which ours includes
//
// The last of these is slower than the engine; planned convolutions never need
// it, since forward and backward_data do not accumulate.

#include <memory>
#include <optional>
#include <vector>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/graph/name.h"
#include "device/cudnn/graph/plan.h"
#include "device/cudnn/graph/problem.h"
#include "device/device.h"

namespace ucudnn::cudnn {

class FlatTensor;

class GraphConvolution : public Convolution {
 public:
  // `asked` says in what the graph computes, `scales` whether the engine
  // honours any scalars. The calling thread is inside handle.Enter(). Fails if
  // the engine does not solve the problem.
  static Result<std::unique_ptr<GraphConvolution>> Create(
      std::shared_ptr<GraphProblem> problem, Precision asked,
      const EngineName& engine, bool scales);
  ~GraphConvolution() override;

  // What the engine computes in: of float data, TF32 if it rounds its
  // operands, else FP32.
  Precision precision() const { return precision_; }
  Bytes workspace() const override { return workspace_; }
  Status Run(const ConvArgs& args, void* workspace,
             Bytes workspace_size) override;

 private:
  struct Ready {
    Scaling scaling;
    std::unique_ptr<ConvolutionPlan> plan;
  };

  GraphConvolution(std::shared_ptr<GraphProblem> problem, Precision asked,
                   EngineName engine, bool scales);
  Status ReserveForAccumulation();
  Status ReserveForSubstitute();

  const ConvolutionPlan& overwrite() const { return *ready_.front().plan; }
  Result<std::unique_ptr<ConvolutionPlan>> Build(Scaling scaling) const;
  // Null if the engine is not to be used so.
  Result<const ConvolutionPlan*> PlanFor(Scaling scaling);
  Status RunSubstitute(const ConvArgs& args, void* workspace);
  Result<const FlatTensor*> Output();

  const std::shared_ptr<GraphProblem> problem_;
  const Precision asked_;
  const EngineName engine_;
  bool scales_;
  Precision precision_;
  std::vector<Ready> ready_;  // that of (1, 0) first
  Bytes workspace_;
  // Where in the workspace a filter gradient waits to be added, if it must.
  std::optional<Bytes> addend_;
  // Both made when they are first needed.
  std::unique_ptr<FlatTensor> output_;
  std::unique_ptr<Convolution> substitute_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_GRAPH_CONVOLUTION_H_
