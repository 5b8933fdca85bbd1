#ifndef UCUDNN_DEVICE_ONEDNN_ONEDNN_DEVICE_H_
#define UCUDNN_DEVICE_ONEDNN_ONEDNN_DEVICE_H_

// The CPU as a device, through oneDNN.
//
// Precisions: FP32; TF32, which FP32 algorithms serve; BF16 if the CPU has
// instructions for it (AVX-512 BF16 or AMX). The rest is kUnimplemented.
// Device memory is the host's, and work is done when Run returns. A workspace
// must be aligned to 64 bytes, which Allocate's is.
//
// Algorithms are named by oneDNN (device/onednn/implementations.h), and their
// workspaces hold blocked copies of the tensors where the implementation wants
// them (device/onednn/convolution.h). "ref:any" solves every problem with
// little or no workspace, but slowly: it is a last resort
// (Candidate::last_resort).
//
// Threads are OpenMP's. Each call into the device sets the calling thread's
// number of OpenMP threads to the device's and restores it afterwards, so
// that several devices, each used by a thread of its own, share one process.

#include <memory>
#include <string>
#include <vector>

#include "device/device.h"

namespace ucudnn {

struct OneDnnOptions {
  int threads = 0;  // 0: one for each core, within the CPU quota
  // The id is "cpu-<name>-<index>"; an empty name means the host's.
  std::string name = {};
  int index = 0;
  // The cores to run on, for the calling thread too during its calls; empty:
  // wherever the system schedules the threads.
  std::vector<int> cores = {};
};

// kInvalidArgument if a core is not available to this process, if a number is
// out of range, or if there are fewer `cores` than threads.
Result<std::unique_ptr<Device>> OpenOneDnnDevice(const OneDnnOptions& options);

namespace onednn {
struct Runtime;
// The runtime of `device` (device/onednn/runtime.h), for other computations on
// the same stream; null if it is no such device.
const Runtime* RuntimeOf(const Device& device);
}  // namespace onednn

// The cores that this process may run on, in ascending order.
std::vector<int> AvailableCores();

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_ONEDNN_ONEDNN_DEVICE_H_
