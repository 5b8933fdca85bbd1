#ifndef UCUDNN_DEVICE_REGISTRY_H_
#define UCUDNN_DEVICE_REGISTRY_H_

// The devices of this machine, through whatever backends this build has.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/measured_point.h"
#include "base/result.h"
#include "device/device.h"

namespace ucudnn {

struct DeviceOptions {
  bool gpus = true;                    // false: as if there were none
  std::vector<int> gpu_ordinals = {};  // empty: every GPU
  // Empty: whole GPUs; else each GPU as slices of so many multiprocessors, no
  // two of one size. They share the GPU, so only one may compute at a time.
  std::vector<std::int64_t> gpu_slices = {};
  // Told of each GPU that cannot be opened, which is then left out. Without it
  // the first such GPU is an error.
  std::function<void(int ordinal, const Error& error)> on_gpu_failure = {};
  // ListAlgorithms is quick rather than complete: for jobs, which run what was
  // planned elsewhere and list only where that is not to be had. Prepare knows
  // all algorithms.
  bool quick_listing = false;

  // Where there is no GPU: the CPU as so many devices. With several, each has
  // cores of its own if there are enough.
  int cpu_devices = 1;
  int cpu_threads = 0;  // of each; 0: an even share of the cores
  // Their ids are "cpu-<name>-<n>"; empty: the host's name. Processes that
  // tell a coordinator of their devices need names of their own.
  std::string cpu_name = {};
};

// "sm=32": multiprocessors of a slice of a GPU (gpu_slices), as --slice and
// UCUDNN_SLICE name it. kInvalidArgument;
// kUnimplemented in a build without GPUs.
Result<std::int64_t> ParseGpuSlice(std::string_view text);

// The clocks of an open device now, and what slows them; nothing where it is
// not told. Costs no time on the device; thread safe.
DeviceClocks ClocksOf(const DeviceInfo& device);

// What measurements of an open device are true under now: its driver, and what
// somebody has set on it that makes its times others (a power cap, clocks).
// Costs no time on the device; thread safe.
std::string ConditionsOf(const DeviceInfo& device);

// The GPUs, else the CPU. kUnavailable if there is neither, saying why;
// kInvalidArgument if an option is out of range.
Result<std::vector<std::unique_ptr<Device>>> OpenDevices(
    const DeviceOptions& options);

// The GPUs that this process sees, by UUID in the order of their ordinals, and
// which of them its thread works on already; -1: none. Makes no context. No
// GPUs where there are none, or no way to use them.
struct GpusSeen {
  std::vector<std::string> uuids;
  int current = -1;
};
GpusSeen SeeGpus();

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_REGISTRY_H_
