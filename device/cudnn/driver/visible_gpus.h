#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_VISIBLE_GPUS_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_VISIBLE_GPUS_H_

// Which GPUs this process sees, without making a context on any of them. This
// header includes none of CUDA's. Thread safe.

#include <string>
#include <vector>

#include "base/result.h"

namespace ucudnn {

struct VisibleGpus {
  // UUIDs ("GPU-...", "MIG-..."), in the order of the driver's ordinals.
  std::vector<std::string> uuids;
  // The ordinal of the GPU whose context is current in this thread, as after
  // cudaSetDevice and a first call of the CUDA runtime; -1 if there is none.
  int current = -1;
};

// kUnavailable without a driver, cuDNN or a GPU, saying which.
Result<VisibleGpus> FindVisibleGpus();

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_VISIBLE_GPUS_H_
