#ifndef UCUDNN_DEVICE_HOST_MEMORY_H_
#define UCUDNN_DEVICE_HOST_MEMORY_H_

// Memory of this machine as the device memory of backends that compute on it.

#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

Bytes TotalHostMemory();
// What can be had without swapping; TotalHostMemory() where the system does
// not say.
Bytes AvailableHostMemory();

// Aligned to 256 bytes; not zeroed, and not backed by pages before it is
// written. kResourceExhausted beyond what is available: the system itself
// would promise more than it has and end the process later.
// kInvalidArgument if `size` is negative.
Result<DeviceBuffer> AllocateHostMemory(Bytes size);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_HOST_MEMORY_H_
