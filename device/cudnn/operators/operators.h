#ifndef UCUDNN_DEVICE_CUDNN_OPERATORS_OPERATORS_H_
#define UCUDNN_DEVICE_CUDNN_OPERATORS_OPERATORS_H_

// This header includes none of CUDA's.

#include <memory>

#include "base/result.h"
#include "device/device.h"
#include "device/operators/operators.h"

namespace ucudnn {

// Operators on a GPU: the functions of cuDNN's legacy API, and kernels of our
// own where it has none (kernels.h). Null if `device` is of another backend;
// kUnimplemented, naming the function, if cuDNN or the driver lacks one.
Result<std::unique_ptr<Operators>> OpenCudnnOperators(Device& device);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_CUDNN_OPERATORS_OPERATORS_H_
