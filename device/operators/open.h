#ifndef UCUDNN_DEVICE_OPERATORS_OPEN_H_
#define UCUDNN_DEVICE_OPERATORS_OPEN_H_

#include <memory>

#include "base/result.h"
#include "device/device.h"
#include "device/operators/operators.h"

namespace ucudnn {

// The operators of `device`. kUnimplemented if its backend has only
// convolutions, or its library or driver lacks a function; errors of loading a
// library.
Result<std::unique_ptr<Operators>> OpenOperators(Device& device);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_OPERATORS_OPEN_H_
