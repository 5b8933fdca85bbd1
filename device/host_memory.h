#ifndef UCUDNN_DEVICE_HOST_MEMORY_H_
#define UCUDNN_DEVICE_HOST_MEMORY_H_

// Host memory that serves as device memory of backends that compute on the
// host.

#include "base/result.h"
#include "base/units.h"
#include "device/device.h"

namespace ucudnn {

Bytes TotalHostMemory();
// Memory available without swapping, within the limits of the container or job
// (cgroups); TotalHostMemory() if the system does not say.
Bytes AvailableHostMemory();

// Aligned to 256 bytes; not zeroed, and not backed by pages before it is
// written. kResourceExhausted beyond what is available: the system itself would
// overcommit and kill the process later.
// kInvalidArgument if `size` is negative.
Result<DeviceBuffer> AllocateHostMemory(Bytes size);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_HOST_MEMORY_H_
