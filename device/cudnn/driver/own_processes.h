#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_OWN_PROCESSES_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_OWN_PROCESSES_H_

// Which of the processes on a GPU is this one. The management library knows it
// by our process id or, in a container, by the host's, which is found by
// watching which id appears on a GPU when we begin to use it. Thread safe.

#include <vector>

#include "base/result.h"
#include "device/cudnn/driver/monitor.h"

namespace ucudnn::cudnn {

bool IsOwnProcess(const GpuProcess& process);

// Takes the processes of a GPU before and after this process opened a context
// there. Learns nothing if several appeared.
void LearnOwnProcess(const Result<std::vector<GpuProcess>>& before,
                     const Result<std::vector<GpuProcess>>& after);

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_OWN_PROCESSES_H_
