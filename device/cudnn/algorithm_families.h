#ifndef UCUDNN_DEVICE_CUDNN_ALGORITHM_FAMILIES_H_
#define UCUDNN_DEVICE_CUDNN_ALGORITHM_FAMILIES_H_

// Every way in which cuDNN solves a convolution on a handle, ours or a
// caller's: the legacy API's algorithms, then the graph API's engines, then
// algorithms in two branches. The contracts of Device's ListAlgorithms, Prepare
// and Run hold here, including one thread at a time.

#include <memory>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/handle.h"
#include "device/device.h"

namespace ucudnn::cudnn {

// Which of cuDNN's APIs are listed. Prepare knows the algorithms of both.
struct Families {
  bool legacy = true;
  bool graph = false;
  bool graph_if_needed = false;  // if the legacy API solves nothing
  // How many of the graph API's top-ranked engines are listed, besides the
  // fallback engines; 0: all.
  int most_engines = 0;
  bool branches = false;  // also the legacy API's in two branches (branches.h)
};

// How the graph API's engines are listed (graph/graph.h).
enum class Listing {
  kPrepared,  // each was built
  kForeseen,  // sooner, but one may be listed that cannot be prepared
};

// kUnimplemented, with cuDNN's reason, if nothing solves the problem.
Result<std::vector<Candidate>> ListConvolutions(
    CudnnHandle& handle, Families families, const ConvProblem& problem,
    BatchSize batch, Listing listing = Listing::kPrepared);

// The same, in the order in which cuDNN would choose them without measurements:
// as the legacy API's heuristics rank them, then the others as listed.
// Algorithms with larger errors than the requested precision explains come
// last.
Result<std::vector<Candidate>> SuggestConvolutions(CudnnHandle& handle,
                                                   Families families,
                                                   const ConvProblem& problem,
                                                   BatchSize batch);

// `handle` must outlive the result.
Result<std::unique_ptr<Convolution>> PrepareConvolution(
    CudnnHandle& handle, const ConvProblem& problem, BatchSize batch,
    const Algorithm& algorithm);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_ALGORITHM_FAMILIES_H_
