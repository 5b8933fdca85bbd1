#include "device/cudnn/driver/monitor.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/units.h"
#include "device/cudnn/driver/libraries.h"

namespace ucudnn {
namespace {

using cudnn::kNvmlClockMemory;
using cudnn::kNvmlClockSm;
using cudnn::kNvmlInsufficientSize;
using cudnn::kNvmlSuccess;
using cudnn::NvmlApi;
using cudnn::NvmlDevice;
using cudnn::NvmlProcess;
using cudnn::NvmlReturn;
using cudnn::NvmlText;

Result<const NvmlApi*> Nvml() {
  UCUDNN_ASSIGN_OR_RETURN(const cudnn::Libraries* libraries,
                          cudnn::LoadedLibraries());
  if (libraries->nvml.DeviceGetHandleByUuid == nullptr) {
    return Fail(Code::kUnavailable, "{}",
                libraries->why_no_nvml.empty() ? "libnvidia-ml.so.1 is too old"
                                               : libraries->why_no_nvml);
  }
  return &libraries->nvml;
}

Result<NvmlDevice> Find(const NvmlApi& nvml, const std::string& device_id) {
  const std::string uuid = device_id.substr(0, device_id.find('/'));
  NvmlDevice device = nullptr;
  const NvmlReturn result = nvml.DeviceGetHandleByUuid(uuid.c_str(), &device);
  if (result == kNvmlSuccess) return device;
  return Fail(Code::kNotFound, "{}: {}", uuid, NvmlText(nvml, result));
}

// Clocks, power and settings are a GPU's: MIG instances have none of their own.
Result<NvmlDevice> FindGpu(const NvmlApi& nvml, const std::string& device_id) {
  UCUDNN_ASSIGN_OR_RETURN(NvmlDevice device, Find(nvml, device_id));
  if (device_id.starts_with("MIG-") && nvml.DeviceGetGpuOfMig != nullptr) {
    (void)nvml.DeviceGetGpuOfMig(device, &device);
  }
  return device;
}

// Empty if there is no such process.
std::string ProcessName(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

std::string ThrottleText(std::uint64_t throttle_reasons) {
  constexpr std::array<std::pair<std::uint64_t, const char*>, 6> kReasons = {{
      {0x4, "power cap"},
      {0x8, "hardware slowdown"},
      {0x10, "sync boost"},
      {0x20, "thermal"},
      {0x40, "hardware thermal"},
      {0x80, "power brake"},
  }};
  std::string text;
  for (const auto& [bit, name] : kReasons) {
    if ((throttle_reasons & bit) == 0) continue;
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

Result<GpuState> ReadGpuState(const std::string& device_id) {
  UCUDNN_ASSIGN_OR_RETURN(const NvmlApi* nvml, Nvml());
  UCUDNN_ASSIGN_OR_RETURN(const NvmlDevice device, FindGpu(*nvml, device_id));
  if (nvml->DeviceGetClockInfo == nullptr ||
      nvml->DeviceGetThrottleReasons == nullptr) {
    return Fail(Code::kUnimplemented,
                "{}: the driver does not report its clocks", device_id);
  }
  unsigned int sm = 0;
  unsigned int memory = 0;
  unsigned long long reasons = 0;
  for (const NvmlReturn result :
       {nvml->DeviceGetClockInfo(device, kNvmlClockSm, &sm),
        nvml->DeviceGetClockInfo(device, kNvmlClockMemory, &memory),
        nvml->DeviceGetThrottleReasons(device, &reasons)}) {
    if (result != kNvmlSuccess) {
      return Fail(Code::kUnimplemented, "{}: {}", device_id,
                  NvmlText(*nvml, result));
    }
  }
  return GpuState{sm, memory, reasons};
}

std::string SettingsText(const NvmlApi& nvml, NvmlDevice device) {
  std::string text;
  const auto add = [&](std::string_view what, unsigned int now,
                       unsigned int usual, std::string_view unit) {
    if (now == usual || now == 0 || usual == 0) return;
    text += fmt::format("{}{} {} of {} {}", text.empty() ? "" : ", ", what, now,
                        usual, unit);
  };
  const auto tells = [&](const auto& function, auto... arguments) {
    return function != nullptr &&
           function(device, arguments...) == kNvmlSuccess;
  };
  unsigned int now = 0;
  unsigned int usual = 0;
  if (tells(nvml.DeviceGetEnforcedPowerLimit, &now) &&
      tells(nvml.DeviceGetDefaultPowerLimit, &usual)) {
    constexpr unsigned int kMilliwatts = 1000;
    add("power cap", now / kMilliwatts, usual / kMilliwatts, "W");
  }
  for (const auto& [clock, what] :
       {std::pair{kNvmlClockSm, "clocks"}, {kNvmlClockMemory, "memory"}}) {
    if (tells(nvml.DeviceGetApplicationsClock, clock, &now) &&
        tells(nvml.DeviceGetDefaultApplicationsClock, clock, &usual)) {
      add(what, now, usual, "MHz");
    }
  }
  return text;
}

std::string ReadGpuSettings(const std::string& device_id) {
  const auto nvml = Nvml();
  if (!nvml) return {};
  const auto device = FindGpu(**nvml, device_id);
  return device ? SettingsText(**nvml, *device) : std::string();
}

Result<std::vector<GpuProcess>> ComputeProcesses(const std::string& device_id) {
  UCUDNN_ASSIGN_OR_RETURN(const NvmlApi* nvml, Nvml());
  UCUDNN_ASSIGN_OR_RETURN(const NvmlDevice device, Find(*nvml, device_id));
  if (nvml->DeviceGetComputeRunningProcesses == nullptr) {
    return Fail(Code::kUnimplemented,
                "{}: the driver does not list its processes", device_id);
  }
  // More processes may start between two calls; a few rounds are enough.
  std::vector<NvmlProcess> raw(64);
  NvmlReturn result = kNvmlInsufficientSize;
  unsigned int count = 0;
  for (int i = 0; i < 4 && result == kNvmlInsufficientSize; ++i) {
    raw.resize(raw.size() * 2);
    count = static_cast<unsigned int>(raw.size());
    result = nvml->DeviceGetComputeRunningProcesses(device, &count, raw.data());
  }
  if (result != kNvmlSuccess) {
    return Fail(Code::kUnimplemented, "{}: {}", device_id,
                NvmlText(*nvml, result));
  }
  raw.resize(count);
  std::vector<GpuProcess> processes;
  for (const NvmlProcess& process : raw) {
    const bool known = process.used_memory != ~0ULL;
    processes.push_back(
        {process.pid,
         known ? static_cast<std::int64_t>(process.used_memory) : -1});
  }
  return processes;
}

bool HasHostPids() {
  // PROC_PID_INIT_INO of Linux's include/linux/proc_ns.h.
  constexpr std::string_view kInitialNamespace = "pid:[4026531836]";
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/ns/pid", error) ==
         kInitialNamespace;
}

std::string ToString(const GpuProcess& process, bool has_host_pids) {
  std::string name = has_host_pids ? ProcessName(process.pid) : "";
  if (name.empty()) name = "a process";
  std::string details = has_host_pids ? fmt::format("pid {}", process.pid) : "";
  if (process.memory_bytes >= 0) {
    if (!details.empty()) details += ", ";
    details += HumanBytes(Bytes(process.memory_bytes));
  }
  return details.empty() ? name : fmt::format("{} ({})", name, details);
}

}  // namespace ucudnn
