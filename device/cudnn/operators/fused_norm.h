#ifndef UCUDNN_DEVICE_CUDNN_OPERATORS_FUSED_NORM_H_
#define UCUDNN_DEVICE_CUDNN_OPERATORS_FUSED_NORM_H_

// This header includes none of CUDA's.

#include <memory>

#include "base/result.h"
#include "device/device.h"
#include "device/operators/fused_norm.h"

namespace ucudnn {

// By cudnnBatchNormalizationForwardTrainingEx and its backward function, which
// keep a bit of each element in the reserve if there is a sum, and nothing
// else. `device` must outlive the result. kInvalidArgument for a malformed
// problem; kUnimplemented if the device is no GPU of cuDNN's, if cuDNN lacks a
// function, or does not compute the problem.
Result<std::unique_ptr<FusedNorm>> OpenCudnnFusedNorm(
    Device& device, const NormProblem& problem);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_CUDNN_OPERATORS_FUSED_NORM_H_
