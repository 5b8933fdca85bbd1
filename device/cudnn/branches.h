#ifndef UCUDNN_DEVICE_CUDNN_BRANCHES_H_
#define UCUDNN_DEVICE_CUDNN_BRANCHES_H_

// Convolutions in two parallel branches (base/measured_point.h, EachBranch): an
// algorithm of the legacy API runs on half of the images on the handle's stream
// and, at the same time, on the others on a stream beside it. This is faster
// where half of the images do not keep the GPU busy.
//
// The workspace holds both branches'. That of a filter gradient also holds the
// second branch's gradient, which is added to the first one's at the end.

#include <memory>
#include <vector>

#include "base/conv_problem.h"
#include "base/measured_point.h"
#include "base/result.h"
#include "base/units.h"
#include "device/cudnn/handle.h"
#include "device/device.h"

namespace ucudnn::cudnn {

// The algorithms of ListLegacy that take both halves of the images, in that
// order; none for a single image. The errors of ListLegacy.
Result<std::vector<Candidate>> ListBranched(CudnnHandle& handle,
                                            const ConvProblem& problem,
                                            BatchSize batch);

// `algorithm` is of ListBranched. The errors of PrepareLegacy and of
// BranchStream::Create. `handle` must outlive the result.
Result<std::unique_ptr<Convolution>> PrepareBranched(
    CudnnHandle& handle, const ConvProblem& problem, BatchSize batch,
    const Algorithm& algorithm);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_BRANCHES_H_
