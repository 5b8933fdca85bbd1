#ifndef UCUDNN_DEVICE_ONEDNN_OPERATORS_H_
#define UCUDNN_DEVICE_ONEDNN_OPERATORS_H_

#include <memory>

#include "device/device.h"
#include "device/operators/operators.h"

namespace ucudnn {

// Operators on the CPU: oneDNN's primitives, and loops where it has none or
// where its primitive would keep something from the forward pass, as maximum
// pools do. Gradients that are added to old ones are computed beside them
// first. Null if `device` is of another backend.
std::unique_ptr<Operators> OpenOneDnnOperators(Device& device);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_ONEDNN_OPERATORS_H_
