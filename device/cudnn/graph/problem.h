#ifndef UCUDNN_DEVICE_CUDNN_GRAPH_PROBLEM_H_
#define UCUDNN_DEVICE_CUDNN_GRAPH_PROBLEM_H_

// A problem and batch in the graph API: what all engines share. The calling
// thread is inside handle.Enter() throughout.

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/graph/plan.h"
#include "device/cudnn/handle.h"
#include "device/cudnn/shapes.h"
#include "device/device.h"

namespace ucudnn::cudnn {

class GraphProblem {
 public:
  // Errors as ShapesOf.
  static Result<std::shared_ptr<GraphProblem>> Create(
      CudnnHandle& handle, const ConvProblem& problem, BatchSize batch);

  // The graph that computes in `compute_type` with this scaling; cached.
  Result<std::shared_ptr<const ConvolutionGraph>> Graph(
      cudnnDataType_t compute_type, Scaling scaling);

  // The legacy API's algorithm that needs the least workspace and is at least
  // as precise as `precision`; it accepts any alpha and beta. Null if there is
  // none.
  Result<const Candidate*> Substitute(Precision precision);

  // kInvalidArgument if an operand is not aligned as the graphs promise.
  Status CheckAlignment(const ConvArgs& args) const;

  CudnnHandle& handle() const { return handle_; }
  const ConvProblem& problem() const { return problem_; }
  BatchSize batch() const { return batch_; }
  // The shape of the tensor that the operation writes.
  const TensorShape& output_shape() const;

 private:
  struct Made {
    cudnnDataType_t compute_type;
    Scaling scaling;
    std::shared_ptr<const ConvolutionGraph> graph;
  };

  GraphProblem(CudnnHandle& handle, const ConvProblem& problem, BatchSize batch,
               const ConvShapes& shapes);

  CudnnHandle& handle_;
  const ConvProblem problem_;
  const BatchSize batch_;
  const ConvShapes shapes_;
  OperandAlignment alignment_;
  std::vector<Made> made_;
  // A list, so that returned pointers stay valid.
  std::list<std::pair<Precision, std::optional<Candidate>>> substitutes_;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_GRAPH_PROBLEM_H_
