#include "device/cudnn/algorithm_families.h"

#include <algorithm>
#include <utility>

#include "device/cudnn/branches.h"
#include "device/cudnn/graph/graph.h"
#include "device/cudnn/graph/name.h"
#include "device/cudnn/legacy/legacy.h"
#include "device/rounding.h"

namespace ucudnn::cudnn {

Result<std::vector<Candidate>> ListConvolutions(CudnnHandle& handle,
                                                Families families,
                                                const ConvProblem& problem,
                                                BatchSize batch,
                                                Listing listing) {
  std::vector<Candidate> candidates;
  std::string refusal = "neither API of cuDNN is enabled";
  // If one API does not support the problem, the other may.
  const auto add = [&](Result<std::vector<Candidate>> found) -> Status {
    if (found) {
      if (found->empty()) refusal = "cuDNN accepts no algorithm";
      candidates.insert(candidates.end(), found->begin(), found->end());
    } else if (found.error().code == Code::kUnimplemented) {
      refusal = found.error().message;
    } else {
      return tl::unexpected<Error>(std::move(found).error());
    }
    return {};
  };
  if (families.legacy) {
    UCUDNN_RETURN_IF_ERROR(add(ListLegacy(handle, problem, batch)));
  }
  if (families.graph || (families.graph_if_needed && candidates.empty())) {
    const auto list = listing == Listing::kForeseen ? ForeseeGraph : ListGraph;
    UCUDNN_RETURN_IF_ERROR(
        add(list(handle, problem, batch, families.most_engines)));
  }
  // Last, so that nobody chooses them without measurements.
  if (families.legacy && families.branches && !candidates.empty()) {
    UCUDNN_RETURN_IF_ERROR(add(ListBranched(handle, problem, batch)));
  }
  if (candidates.empty()) {
    return Fail(Code::kUnimplemented, "{} at batch {}: {}", ToString(problem),
                batch.count(), refusal);
  }
  return candidates;
}

Result<std::vector<Candidate>> SuggestConvolutions(CudnnHandle& handle,
                                                   Families families,
                                                   const ConvProblem& problem,
                                                   BatchSize batch) {
  UCUDNN_ASSIGN_OR_RETURN(auto candidates,
                          ListConvolutions(handle, families, problem, batch));
  UCUDNN_RETURN_IF_ERROR(OrderAsSuggested(handle, problem, batch, &candidates));
  const double tolerance = ToleranceOf(problem.precision);
  std::stable_partition(
      candidates.begin(), candidates.end(), [&](const Candidate& c) {
        return ToleranceOf(c.algorithm, problem.geometry) <= tolerance;
      });
  return candidates;
}

Result<std::unique_ptr<Convolution>> PrepareConvolution(
    CudnnHandle& handle, const ConvProblem& problem, BatchSize batch,
    const Algorithm& algorithm) {
  if (EachBranch(algorithm)) {
    return PrepareBranched(handle, problem, batch, algorithm);
  }
  return IsEngineName(algorithm.name)
             ? PrepareGraph(handle, problem, batch, algorithm)
             : PrepareLegacy(handle, problem, batch, algorithm);
}

}  // namespace ucudnn::cudnn
