#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_NVML_TYPES_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_NVML_TYPES_H_

// The parts of libnvidia-ml.so.1, the driver's management library, that we use.
// Its header comes with neither the driver nor the CUDA packages. Each
// function's ABI is stable under its name.

#include "device/cudnn/driver/function.h"

namespace ucudnn::cudnn {

using NvmlDevice = struct NvmlDeviceTag*;

enum NvmlReturn : int {
  kNvmlSuccess = 0,
  kNvmlInsufficientSize = 7,
  kNvmlNotFound = 13,  // of a function
};
enum NvmlClock : int { kNvmlClockSm = 1, kNvmlClockMemory = 2 };

// An entry of nvmlDeviceGetComputeRunningProcesses, from its second version.
struct NvmlProcess {
  unsigned int pid;
  unsigned long long used_memory;  // all ones if unknown
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

// Each may be null.
struct NvmlApi {
  Function<NvmlReturn()> Init{"nvmlInit_v2"};
  Function<const char*(NvmlReturn)> ErrorString{"nvmlErrorString"};
  Function<NvmlReturn(char* text, unsigned int size)> SystemGetDriverVersion{
      "nvmlSystemGetDriverVersion"};
  Function<NvmlReturn(const char* uuid, NvmlDevice* device)>
      DeviceGetHandleByUuid{"nvmlDeviceGetHandleByUUID"};
  // The GPU of a MIG instance.
  Function<NvmlReturn(NvmlDevice instance, NvmlDevice* gpu)> DeviceGetGpuOfMig{
      "nvmlDeviceGetDeviceHandleFromMigDeviceHandle"};
  // The third version has the second one's entries.
  Function<NvmlReturn(NvmlDevice, unsigned int* count, NvmlProcess* processes)>
      DeviceGetComputeRunningProcesses{
          "nvmlDeviceGetComputeRunningProcesses_v3",
          "nvmlDeviceGetComputeRunningProcesses_v2"};
  Function<NvmlReturn(NvmlDevice, NvmlClock, unsigned int* mhz)>
      DeviceGetClockInfo{"nvmlDeviceGetClockInfo"};
  // The current and the default power limit, in milliwatts.
  Function<NvmlReturn(NvmlDevice, unsigned int* limit)>
      DeviceGetEnforcedPowerLimit{"nvmlDeviceGetEnforcedPowerLimit"};
  Function<NvmlReturn(NvmlDevice, unsigned int* limit)>
      DeviceGetDefaultPowerLimit{"nvmlDeviceGetPowerManagementDefaultLimit"};
  // The clocks that were set, and the default ones.
  Function<NvmlReturn(NvmlDevice, NvmlClock, unsigned int* mhz)>
      DeviceGetApplicationsClock{"nvmlDeviceGetApplicationsClock"};
  Function<NvmlReturn(NvmlDevice, NvmlClock, unsigned int* mhz)>
      DeviceGetDefaultApplicationsClock{
          "nvmlDeviceGetDefaultApplicationsClock"};
  Function<NvmlReturn(NvmlDevice, unsigned long long* mask)>
      DeviceGetThrottleReasons{"nvmlDeviceGetCurrentClocksEventReasons",
                               "nvmlDeviceGetCurrentClocksThrottleReasons"};
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_NVML_TYPES_H_
