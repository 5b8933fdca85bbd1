#ifndef UCUDNN_DEVICE_CUDNN_GRAPH_CONVOLUTION_H_
#define UCUDNN_DEVICE_CUDNN_GRAPH_CONVOLUTION_H_

// An engine of the graph API prepared for a problem and batch, with any alpha
// and beta. Both scalars are part of cuDNN's graphs, so each pair needs a plan:
//
//   1, 0                     made at once: an engine that refuses is not one
//   1, 1 of backward_filter  made at once, since micro-batches accumulate
//   any other pair           made when it is first run, which costs
//                            milliseconds of host time
//
// An engine that failed the check of such pairs (engine_check.h), or refuses
// the second, uses only the first plan:
//
//   beta 0                   the output is scaled afterwards
//   backward_filter          the workspace also holds one filter, from which
//                            the gradient is added
//   else                     the legacy API's algorithm that needs least
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

// What GraphConvolution::Create would make, as far as cuDNN tells without
// preparing the engine: tenths of a millisecond instead of tens. An engine that
// is rejected only when it is prepared is not noticed.
struct ForeseenEngine {
  Precision precision = Precision::kFp32;
  Bytes workspace;
};
// Fails if cuDNN rejects the engine already, or does not tell, as before 9.2.
// The calling thread is inside handle.Enter().
Result<ForeseenEngine> ForeseeEngine(GraphProblem& problem, Precision asked,
                                     const EngineName& engine, bool scales);

class GraphConvolution : public Convolution {
 public:
  // `asked` is the graph's precision; `scales` says whether the engine honours
  // any scalars. The calling thread is inside handle.Enter(). Fails if the
  // engine does not solve the problem.
  static Result<std::unique_ptr<GraphConvolution>> Create(
      std::shared_ptr<GraphProblem> problem, Precision asked,
      const EngineName& engine, bool scales);
  ~GraphConvolution() override;

  // The arithmetic of the engine: on float data, TF32 if it rounds its
  // operands, else FP32.
  Precision precision() const { return precision_; }
  Bytes workspace() const override { return workspace_; }
  Status Run(const ConvArgs& args, void* workspace,
             Bytes workspace_size) override;

 private:
  struct Ready {
    Scaling scaling;
    std::unique_ptr<EngineConvolution> plan;
  };

  GraphConvolution(std::shared_ptr<GraphProblem> problem, Precision asked,
                   EngineName engine, bool scales);
  Status ReserveForAccumulation();
  Status ReserveForSubstitute();

  const EngineConvolution& overwrite() const { return *ready_.front().plan; }
  Result<std::unique_ptr<EngineConvolution>> Build(Scaling scaling) const;
  // Null if the engine must not be used with this scaling.
  Result<const EngineConvolution*> PlanFor(Scaling scaling);
  Status RunSubstitute(const ConvArgs& args, void* workspace);
  Result<const FlatTensor*> Output();

  const std::shared_ptr<GraphProblem> problem_;
  const Precision asked_;
  const EngineName engine_;
  bool scales_;
  Precision precision_;
  std::vector<Ready> ready_;  // the plan for (1, 0) first
  Bytes workspace_;
  // The workspace offset of a filter gradient that is added afterwards, if any.
  std::optional<Bytes> addend_;
  // Both are created when first needed.
  std::unique_ptr<FlatTensor> output_;
  std::unique_ptr<Convolution> substitute_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_GRAPH_CONVOLUTION_H_
