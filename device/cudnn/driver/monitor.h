#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_MONITOR_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_MONITOR_H_

// What NVIDIA's management library says about a GPU. Costs no time on it.
// Thread safe.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/cudnn/driver/nvml_types.h"

namespace ucudnn {

// The clocks at which a measurement was made, and what slowed them.
struct GpuState {
  std::int64_t sm_clock_mhz = 0;
  std::int64_t memory_clock_mhz = 0;
  std::uint64_t throttle_reasons = 0;  // NVML's mask
};

// The reasons that make a GPU slower than it could be, for people: "power cap,
// thermal"; empty if there are none. Idling and clocks that somebody set are
// not among them.
std::string ThrottleText(std::uint64_t throttle_reasons);

// The state of the GPU whose device id (DeviceInfo::id, with or without a
// slice's suffix) is given. kUnavailable without the library; kNotFound if
// there is no such GPU; kUnimplemented where it does not tell.
Result<GpuState> ReadGpuState(const std::string& device_id);

// What somebody has set on a GPU that makes its times others than those of its
// kind, as part of what measurements are true under: "power cap 500 of 700 W,
// clocks 1200 of 1980 MHz, memory 1593 of 2619 MHz". Empty where all is as it
// comes, and what the driver does not tell is left out.
std::string SettingsText(const cudnn::NvmlApi& nvml, cudnn::NvmlDevice device);
// The same of the GPU with this device id; empty if it is not told.
std::string ReadGpuSettings(const std::string& device_id);

// Processes that compute on a GPU, by the library's process ids: those of the
// host, which a container may not know its own processes by.
struct GpuProcess {
  std::int64_t pid = 0;
  std::int64_t memory_bytes = -1;  // -1 where it is not told
};
Result<std::vector<GpuProcess>> ComputeProcesses(const std::string& device_id);

// "python3 (pid 4711, 5.2 GiB)"; the name is left out where /proc has none.
std::string ToString(const GpuProcess& process);

// "580.159.04", or "unknown".
std::string DriverVersion();

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_MONITOR_H_
