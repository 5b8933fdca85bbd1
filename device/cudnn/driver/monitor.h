#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_MONITOR_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_MONITOR_H_

// The state of a GPU from NVIDIA's management library (NVML). Takes no time on
// the GPU. Thread safe.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/cudnn/driver/nvml_types.h"

namespace ucudnn {

// Clocks and throttle reasons during a measurement.
struct GpuState {
  std::int64_t sm_clock_mhz = 0;
  std::int64_t memory_clock_mhz = 0;
  std::uint64_t throttle_reasons = 0;  // NVML's mask
};

// The reasons that slow a GPU down, for people: "power cap, thermal"; empty if
// there are none. Idling and clocks set by an administrator do not count.
std::string ThrottleText(std::uint64_t throttle_reasons);

// The state of the GPU with this device id (DeviceInfo::id, with or without a
// slice's suffix). kUnavailable without the library; kNotFound if there is no
// such GPU; kUnimplemented if it does not report its clocks.
Result<GpuState> ReadGpuState(const std::string& device_id);

// An administrator's settings that make a GPU slower than others of its kind,
// as part of the conditions of measurements: "power cap 500 of 700 W, clocks
// 1200 of 1980 MHz, memory 1593 of 2619 MHz". Empty with default settings;
// leaves out what the driver does not report.
std::string SettingsText(const cudnn::NvmlApi& nvml, cudnn::NvmlDevice device);
// The same for the GPU with this device id; empty if unavailable.
std::string ReadGpuSettings(const std::string& device_id);

// Processes that compute on a GPU, or in a MIG instance. Their ids are the
// host's, which differ from those inside a container.
struct GpuProcess {
  std::int64_t pid = 0;
  std::int64_t memory_bytes = -1;  // -1 if unknown
};
Result<std::vector<GpuProcess>> ComputeProcesses(const std::string& device_id);

// Whether this process sees the host's process ids, because it runs in the
// initial pid namespace and not in a container with its own.
bool HasHostPids();

// "python3 (pid 4711, 5.2 GiB)"; "a process (5.2 GiB)" without the host's ids,
// since the same id may be another process here.
std::string ToString(const GpuProcess& process,
                     bool has_host_pids = HasHostPids());

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_MONITOR_H_
