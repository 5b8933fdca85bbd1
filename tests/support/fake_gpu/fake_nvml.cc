// libnvidia-ml.so.1: the functions that device/cudnn loads, of one GPU and its
// MIG instance.

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "device/cudnn/driver/nvml_types.h"

namespace {

using ucudnn::cudnn::kNvmlSuccess;
using ucudnn::cudnn::NvmlClock;
using ucudnn::cudnn::NvmlDevice;
using ucudnn::cudnn::NvmlProcess;
using ucudnn::cudnn::NvmlReturn;

constexpr auto kNotSupported = static_cast<NvmlReturn>(3);
constexpr auto kNotFound = static_cast<NvmlReturn>(6);
constexpr auto kMismatch = static_cast<NvmlReturn>(18);

int gpu_object;
int instance_object;
const auto gpu = reinterpret_cast<NvmlDevice>(&gpu_object);
const auto instance = reinterpret_cast<NvmlDevice>(&instance_object);

// What only a GPU has.
template <class T>
NvmlReturn OfGpu(NvmlDevice device, T value, T* out) {
  if (device != gpu) return kNotSupported;
  *out = value;
  return kNvmlSuccess;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

NvmlReturn nvmlInit_v2() {
  return std::getenv("FAKE_NVML_MISMATCH") == nullptr ? kNvmlSuccess
                                                      : kMismatch;
}
NvmlReturn nvmlSystemGetDriverVersion(char* text, unsigned int size) {
  const char* const set = std::getenv("FAKE_DRIVER");
  std::strncpy(text, set == nullptr ? "470.256.02" : set, size);
  return kNvmlSuccess;
}
const char* nvmlErrorString(NvmlReturn result) {
  return result == kMismatch ? "Driver/library version mismatch" : "failed";
}
NvmlReturn nvmlDeviceGetHandleByUUID(const char* uuid, NvmlDevice* device) {
  const std::string_view text = uuid;
  const bool mig = std::getenv("FAKE_GPU_MIG") != nullptr;
  if (mig && text == "MIG-07070707-0707-0707-0707-070707070707") {
    *device = instance;
  } else if (text == (mig ? "GPU-09090909-0909-0909-0909-090909090909"
                          : "GPU-07070707-0707-0707-0707-070707070707")) {
    *device = gpu;
  } else {
    return kNotFound;
  }
  return kNvmlSuccess;
}
NvmlReturn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(NvmlDevice,
                                                        NvmlDevice* device) {
  *device = gpu;
  return kNvmlSuccess;
}
NvmlReturn nvmlDeviceGetComputeRunningProcesses_v3(NvmlDevice device,
                                                   unsigned int* count,
                                                   NvmlProcess* processes) {
  *count = device == instance ? 1 : 0;
  if (device == instance) processes[0] = {4711, 1 << 30, 1, 0};
  return kNvmlSuccess;
}
NvmlReturn nvmlDeviceGetClockInfo(NvmlDevice device, NvmlClock,
                                  unsigned int* mhz) {
  return OfGpu(device, 1200U, mhz);
}
NvmlReturn nvmlDeviceGetCurrentClocksEventReasons(NvmlDevice device,
                                                  unsigned long long* mask) {
  return OfGpu(device, 4ULL, mask);
}
NvmlReturn nvmlDeviceGetEnforcedPowerLimit(NvmlDevice device,
                                           unsigned int* limit) {
  return OfGpu(device, 300'000U, limit);
}
NvmlReturn nvmlDeviceGetPowerManagementDefaultLimit(NvmlDevice device,
                                                    unsigned int* limit) {
  return OfGpu(device, 400'000U, limit);
}

}  // extern "C"
