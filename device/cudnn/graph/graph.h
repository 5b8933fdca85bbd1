#ifndef UCUDNN_DEVICE_CUDNN_GRAPH_GRAPH_H_
#define UCUDNN_DEVICE_CUDNN_GRAPH_GRAPH_H_

// Convolutions through cuDNN's graph API: engines with their knobs, named as in
// name.h. Their math has no name.
//
// Engines come from the heuristics' main list (the first `most` of it, if that
// is not 0) and from their fallback list. On float data an engine that uses the
// matrix units or rounds its input is TF32, any other FP32, and only the latter
// count for FP32; on 16-bit data the graph determines the arithmetic.
//
// convolution.h says how any alpha and beta are served. An engine is offered
// only after a check of its results (engine_check.h), which runs on the device
// when a problem is first listed or prepared on a handle.
//
// Operands must be aligned to 16 bytes, or be whole images into an aligned
// tensor: kInvalidArgument otherwise.

#include <memory>
#include <string>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/handle.h"
#include "device/device.h"

namespace ucudnn::cudnn {

// The engines that the heuristics suggest, that accept the batch and have no
// fault, best first; perhaps none. Builds each engine once, which takes about a
// millisecond of host time, more if it is compiled, and checks those that have
// no verdict yet. Until the next listing the handle keeps them ready for
// PrepareGraph.
Result<std::vector<Candidate>> ListGraph(CudnnHandle& handle,
                                         const ConvProblem& problem,
                                         BatchSize batch, int most = 0);
// The same without building the engines whose verdicts are known, so that one
// may be listed that PrepareGraph refuses. The handle keeps what it keeps
// ready.
Result<std::vector<Candidate>> ForeseeGraph(CudnnHandle& handle,
                                            const ConvProblem& problem,
                                            BatchSize batch, int most = 0);

// kNotFound if the name is not an engine's, or the engine does not solve this
// problem and batch in this precision, or has a fault. `handle` must outlive
// the result.
Result<std::unique_ptr<Convolution>> PrepareGraph(CudnnHandle& handle,
                                                  const ConvProblem& problem,
                                                  BatchSize batch,
                                                  const Algorithm& algorithm);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_GRAPH_GRAPH_H_
