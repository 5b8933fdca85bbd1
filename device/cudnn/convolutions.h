#ifndef UCUDNN_DEVICE_CUDNN_CONVOLUTIONS_H_
#define UCUDNN_DEVICE_CUDNN_CONVOLUTIONS_H_

// Every way in which cuDNN solves a convolution on a handle, ours or a
// caller's: the first interface's algorithms, then the graph interface's
// engines. What Device promises of ListAlgorithms, Prepare and Run holds here;
// so does its rule that all this belongs to one thread at a time.

#include <memory>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/handle.h"
#include "device/device.h"

namespace ucudnn::cudnn {

// Which interfaces are listed. Prepare knows the algorithms of both.
struct Families {
  bool legacy = true;
  bool graph = false;
  bool graph_if_needed = false;  // where the first interface solves nothing
  // How many of the engines that the graph interface's heuristics put first
  // are listed, besides their fallbacks; 0: all.
  int most_engines = 0;
};

// kUnimplemented, with cuDNN's reason, if nothing solves the problem.
Result<std::vector<Candidate>> ListConvolutions(CudnnHandle& handle,
                                                Families families,
                                                const ConvProblem& problem,
                                                BatchSize batch);

// The same, in the order in which cuDNN would take them unmeasured: as the
// heuristics of its first interface say, then the engines of the other. What
// errs more than the asked precision explains comes last.
Result<std::vector<Candidate>> SuggestConvolutions(CudnnHandle& handle,
                                                   Families families,
                                                   const ConvProblem& problem,
                                                   BatchSize batch);

// `handle` outlives the result.
Result<std::unique_ptr<Convolution>> PrepareConvolution(
    CudnnHandle& handle, const ConvProblem& problem, BatchSize batch,
    const Algorithm& algorithm);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_CONVOLUTIONS_H_
