#ifndef UCUDNN_DEVICE_CUDNN_LEGACY_LEGACY_H_
#define UCUDNN_DEVICE_CUDNN_LEGACY_LEGACY_H_

// Convolutions through cuDNN's legacy API: descriptors, a fixed list of
// algorithms, and a workspace query for each.

#include <memory>
#include <vector>

#include "base/conv_problem.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/handle.h"
#include "device/device.h"

namespace ucudnn::cudnn {

// The algorithms for which cuDNN gives a workspace size, in the order of
// LegacyAlgorithms, then LegacyMaths; perhaps none. kInvalidArgument and
// kUnimplemented as ShapesOf; kDataLoss if the context is lost.
Result<std::vector<Candidate>> ListLegacy(CudnnHandle& handle,
                                          const ConvProblem& problem,
                                          BatchSize batch);

// Sorts the candidates of ListLegacy as cuDNN's heuristics rank them;
// candidates that they do not name, and engines of the graph API, follow in
// their old order. Takes no time on the device, only one query, or two for
// TRUE_HALF, whose half sums come before those in float. kDataLoss if the
// context is lost.
Status OrderAsSuggested(CudnnHandle& handle, const ConvProblem& problem,
                        BatchSize batch, std::vector<Candidate>* candidates);

// kNotFound if there is no such algorithm or cuDNN refuses it for this problem
// and batch, saying why. `handle` must outlive the result.
Result<std::unique_ptr<Convolution>> PrepareLegacy(CudnnHandle& handle,
                                                   const ConvProblem& problem,
                                                   BatchSize batch,
                                                   const Algorithm& algorithm);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_LEGACY_LEGACY_H_
