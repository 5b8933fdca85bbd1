#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_NVML_TYPES_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_NVML_TYPES_H_

// The parts of libnvidia-ml.so.1, the driver's management library, that we use.
// Its header comes with neither the driver nor the CUDA packages. Each
// function's ABI is stable under its name.

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
  NvmlReturn (*Init)() = nullptr;
  const char* (*ErrorString)(NvmlReturn) = nullptr;
  NvmlReturn (*SystemGetDriverVersion)(char* text, unsigned int size) = nullptr;
  NvmlReturn (*DeviceGetHandleByUuid)(const char* uuid,
                                      NvmlDevice* device) = nullptr;
  // The GPU of a MIG instance.
  NvmlReturn (*DeviceGetGpuOfMig)(NvmlDevice instance,
                                  NvmlDevice* gpu) = nullptr;
  NvmlReturn (*DeviceGetComputeRunningProcesses)(
      NvmlDevice device, unsigned int* count, NvmlProcess* processes) = nullptr;
  NvmlReturn (*DeviceGetClockInfo)(NvmlDevice device, NvmlClock clock,
                                   unsigned int* mhz) = nullptr;
  // The current and the default power limit, in milliwatts.
  NvmlReturn (*DeviceGetEnforcedPowerLimit)(NvmlDevice device,
                                            unsigned int* limit) = nullptr;
  NvmlReturn (*DeviceGetDefaultPowerLimit)(NvmlDevice device,
                                           unsigned int* limit) = nullptr;
  // The clocks that were set, and the default ones.
  NvmlReturn (*DeviceGetApplicationsClock)(NvmlDevice device, NvmlClock clock,
                                           unsigned int* mhz) = nullptr;
  NvmlReturn (*DeviceGetDefaultApplicationsClock)(NvmlDevice device,
                                                  NvmlClock clock,
                                                  unsigned int* mhz) = nullptr;
  NvmlReturn (*DeviceGetThrottleReasons)(NvmlDevice device,
                                         unsigned long long* mask) = nullptr;
};

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_NVML_TYPES_H_
