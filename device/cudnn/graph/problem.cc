#include "device/cudnn/graph/problem.h"

#include <array>

#include "device/cudnn/legacy/legacy.h"

namespace ucudnn::cudnn {

Result<std::shared_ptr<GraphProblem>> GraphProblem::Create(
    CudnnHandle& handle, const ConvProblem& problem, BatchSize batch) {
  UCUDNN_ASSIGN_OR_RETURN(const ConvShapes shapes, ShapesOf(problem, batch));
  return std::shared_ptr<GraphProblem>(
      new GraphProblem(handle, problem, batch, shapes));
}

GraphProblem::GraphProblem(CudnnHandle& handle, const ConvProblem& problem,
                           BatchSize batch, const ConvShapes& shapes)
    : handle_(handle), problem_(problem), batch_(batch), shapes_(shapes) {
  const ConvGeometry& g = problem.geometry;
  alignment_.input = ImageAlignment(g.input_elements(), problem.precision);
  alignment_.output = ImageAlignment(g.output_elements(), problem.precision);
}

Result<std::shared_ptr<const ConvolutionGraph>> GraphProblem::Graph(
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

Result<const Candidate*> GraphProblem::Substitute(Precision precision) {
  for (const auto& [known, candidate] : substitutes_) {
    if (known == precision) return candidate ? &*candidate : nullptr;
  }
  ConvProblem problem = problem_;
  problem.precision = precision;
  const auto candidates = ListLegacy(handle_, problem, batch_);
  UCUDNN_RETURN_IF_ERROR(handle_.CheckLost());
  std::optional<Candidate> least;
  if (candidates) {
    for (const Candidate& candidate : *candidates) {
      if (!least || candidate.workspace < least->workspace) least = candidate;
    }
  }
  const auto& kept = substitutes_.emplace_back(precision, std::move(least));
  return kept.second ? &*kept.second : nullptr;
}

Status GraphProblem::CheckAlignment(const ConvArgs& args) const {
  std::array<std::pair<const void*, std::int64_t>, 3> operands = {};
  switch (problem_.op) {
    case ConvOp::kForward:
      operands = {{{args.a, alignment_.input},
                   {args.b, alignment_.filter},
                   {args.out, alignment_.output}}};
      break;
    case ConvOp::kBackwardData:
      operands = {{{args.a, alignment_.output},
                   {args.b, alignment_.filter},
                   {args.out, alignment_.input}}};
      break;
    case ConvOp::kBackwardFilter:
      operands = {{{args.a, alignment_.input},
                   {args.b, alignment_.output},
                   {args.out, alignment_.filter}}};
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

const TensorShape& GraphProblem::output_shape() const {
  switch (problem_.op) {
    case ConvOp::kBackwardData:
      return shapes_.input;
    case ConvOp::kBackwardFilter:
      return shapes_.filter;
    case ConvOp::kForward:
      break;
  }
  return shapes_.output;
}

}  // namespace ucudnn::cudnn
