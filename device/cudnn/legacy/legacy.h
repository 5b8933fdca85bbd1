#ifndef UCUDNN_DEVICE_CUDNN_LEGACY_LEGACY_H_
#define UCUDNN_DEVICE_CUDNN_LEGACY_LEGACY_H_

// Convolutions through cuDNN's first interface: descriptors, an algorithm of a
// fixed list, a workspace query for each.

#include <memory>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/handle.h"
#include "device/device.h"

namespace ucudnn::cudnn {

// Those that cuDNN gives a workspace size for, in the order of
// LegacyAlgorithms, then LegacyMaths; perhaps none. kInvalidArgument and
// kUnimplemented as ShapesOf; kDataLoss if the context is lost.
Result<std::vector<Candidate>> ListLegacy(CudnnHandle& handle,
                                          const ConvProblem& problem,
                                          BatchSize batch);

// Puts the candidates of ListLegacy into the order in which cuDNN's heuristics
// would take them; what they do not name, and engines of the graph interface,
// keep their order behind. No time on the device; host time for one question,
// or two for TRUE_HALF, whose half sums come before those in float.
// kDataLoss if the context is lost.
Status OrderAsSuggested(CudnnHandle& handle, const ConvProblem& problem,
                        BatchSize batch, std::vector<Candidate>* candidates);

// kNotFound if there is no such algorithm or cuDNN refuses it for this problem
// and batch, saying why. `handle` outlives the result.
Result<std::unique_ptr<Convolution>> PrepareLegacy(CudnnHandle& handle,
                                                   const ConvProblem& problem,
                                                   BatchSize batch,
                                                   const Algorithm& algorithm);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_LEGACY_LEGACY_H_
