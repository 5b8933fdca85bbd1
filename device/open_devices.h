#ifndef UCUDNN_DEVICE_OPEN_DEVICES_H_
#define UCUDNN_DEVICE_OPEN_DEVICES_H_

// The devices of this machine, through the backends of this build.

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
  bool gpus = true;                    // false: ignore them
  std::vector<int> gpu_ordinals = {};  // empty: every GPU
  // Empty: whole GPUs; else each GPU as slices of these numbers of
  // multiprocessors, no two of one size. Slices share the GPU, so only one may
  // compute at a time.
  std::vector<std::int64_t> gpu_slices = {};
  // As CudnnOptions::on_failure.
  std::function<void(const DeviceInfo& gpu, const Error& error)>
      on_gpu_failure = {};
  // ListAlgorithms is quick rather than complete: for jobs, which run plans
  // made elsewhere and list only as a fallback. Prepare knows all algorithms.
  bool quick_listing = false;
  // Lists algorithms in two parallel branches too (device/cudnn/branches.h).
  bool branches = false;

  // Without a GPU, the CPU serves as this many devices. If there are several,
  // each has its own cores if there are enough.
  int cpu_devices = 1;
  int cpu_threads = 0;  // per device; 0: an even share of the usable cores
  // CPU device ids are "cpu-<name>-<n>"; empty: the host's name. Processes that
  // register devices with a coordinator need unique names.
  std::string cpu_name = {};
};

// Parses "sm=32", the multiprocessors of a GPU slice (gpu_slices), the form of
// --slice and UCUDNN_SLICE. kInvalidArgument; kUnimplemented in a build without
// GPUs.
Result<std::int64_t> ParseGpuSlice(std::string_view text);

// An open device's current clocks and throttle reasons; empty if unavailable.
// Costs no time on the device; thread safe.
DeviceClocks ClocksOf(const DeviceInfo& device);

// Whether anything tells which other processes use an open device: without
// that, it is measured also while others slow it down. The reason, if not.
Status CheckProcesses(const DeviceInfo& device);

// The conditions of measurements on an open device now: its driver, and
// settings that change its times (a power cap, clocks). Costs no time on the
// device; thread safe.
std::string ConditionsOf(const DeviceInfo& device);

// The GPUs, else the CPU. kUnavailable if there is neither, saying why;
// kInvalidArgument if an option is out of range.
Result<std::vector<std::unique_ptr<Device>>> OpenDevices(
    const DeviceOptions& options);

// The UUIDs of the GPUs that this process sees, in the order of their ordinals,
// and the ordinal of the one that is current in this thread; -1: none. Makes no
// context. Empty if there are no GPUs, or no way to use them.
struct GpusSeen {
  std::vector<std::string> uuids;
  int current = -1;
};
GpusSeen SeeGpus();

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_OPEN_DEVICES_H_
