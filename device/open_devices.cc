#include "device/open_devices.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "base/service/host.h"

// One function for each backend, in order of preference.
#ifdef UCUDNN_WITH_CUDNN
#include "device/cudnn/cudnn_device.h"
#include "device/cudnn/driver/monitor.h"
#include "device/cudnn/driver/visible_gpus.h"
#endif
#ifdef UCUDNN_WITH_ONEDNN
#include "device/onednn/onednn_device.h"
#endif

namespace ucudnn {
namespace {

using Devices = std::vector<std::unique_ptr<Device>>;

Result<Devices> OpenGpus([[maybe_unused]] const DeviceOptions& options) {
#ifdef UCUDNN_WITH_CUDNN
  CudnnOptions cudnn;
  cudnn.ordinals = options.gpu_ordinals;
  cudnn.on_failure = options.on_gpu_failure;
  cudnn.graph = !options.quick_listing;
  cudnn.graph_if_needed = options.quick_listing;
  cudnn.branches = options.branches;
  cudnn.listing_threads = std::clamp(UsableCores() / 2, 1, 8);
  if (options.gpu_slices.empty()) return OpenCudnnDevices(cudnn);
  Devices slices;
  for (const std::int64_t sms : options.gpu_slices) {
    cudnn.slice_sms = sms;
    UCUDNN_ASSIGN_OR_RETURN(Devices opened, OpenCudnnDevices(cudnn));
    std::move(opened.begin(), opened.end(), std::back_inserter(slices));
  }
  return slices;
#else
  return Fail(Code::kUnavailable, "this build has no cuDNN backend");
#endif
}

Result<Devices> OpenCpus([[maybe_unused]] const DeviceOptions& options) {
#ifdef UCUDNN_WITH_ONEDNN
  const std::vector<int> cores = AvailableCores();
  const int available = static_cast<int>(cores.size());
  if (options.cpu_threads > available) {
    return Fail(Code::kInvalidArgument,
                "{} threads of a CPU device are requested; up to {} are "
                "accepted, one for each core that this process may use",
                options.cpu_threads, available);
  }
  const int threads = options.cpu_threads > 0
                          ? options.cpu_threads
                          : std::max(1, UsableCores() / options.cpu_devices);
  const bool own_cores =
      options.cpu_devices > 1 && threads <= available / options.cpu_devices;
  Devices devices;
  for (int i = 0; i < options.cpu_devices; ++i) {
    OneDnnOptions onednn;
    onednn.threads = threads;
    onednn.index = i;
    onednn.name = options.cpu_name;
    if (own_cores) {
      const auto first = cores.begin() + std::ptrdiff_t{i} * threads;
      onednn.cores.assign(first, first + threads);
    }
    UCUDNN_ASSIGN_OR_RETURN(auto device, OpenOneDnnDevice(onednn));
    devices.push_back(std::move(device));
  }
  return devices;
#else
  return Fail(Code::kUnavailable, "this build has no oneDNN backend");
#endif
}

}  // namespace

Result<std::int64_t> ParseGpuSlice(std::string_view text) {
#ifdef UCUDNN_WITH_CUDNN
  return ParseSlice(text);
#else
  return Fail(Code::kUnimplemented,
              "slice '{}': this build has no cuDNN backend", text);
#endif
}

DeviceClocks ClocksOf([[maybe_unused]] const DeviceInfo& device) {
#ifdef UCUDNN_WITH_CUDNN
  if (const auto state = ReadGpuState(device.id)) {
    return {state->sm_clock_mhz, state->memory_clock_mhz,
            ThrottleText(state->throttle_reasons)};
  }
#endif
  return {};
}

Status CheckProcesses([[maybe_unused]] const DeviceInfo& device) {
#ifdef UCUDNN_WITH_CUDNN
  if (!device.id.starts_with("cpu-")) {
    UCUDNN_RETURN_IF_ERROR(ComputeProcesses(device.id));
  }
#endif
  return {};
}

std::string ConditionsOf(const DeviceInfo& device) {
  std::string conditions = device.driver;
#ifdef UCUDNN_WITH_CUDNN
  if (const std::string settings = ReadGpuSettings(device.id);
      !settings.empty()) {
    conditions += ", " + settings;
  }
#endif
  return conditions;
}

Result<Devices> OpenDevices(const DeviceOptions& options) {
  constexpr int kMostCpuDevices = 1024;
  if (options.cpu_devices < 0 || options.cpu_devices > kMostCpuDevices) {
    return Fail(Code::kInvalidArgument,
                "{} CPU devices are requested; 0 to {} is accepted",
                options.cpu_devices, kMostCpuDevices);
  }
  if (options.cpu_threads < 0) {
    return Fail(Code::kInvalidArgument,
                "{} threads of a CPU device are requested; 0 or more are "
                "accepted",
                options.cpu_threads);
  }
  std::set<std::int64_t> slices;
  for (const std::int64_t sms : options.gpu_slices) {
    if (slices.insert(sms).second) continue;
    return Fail(Code::kInvalidArgument,
                "two slices of {} multiprocessors are requested; one of each "
                "size is accepted, since equal ones measure the same",
                sms);
  }
  std::string why = "GPUs are not requested";
  if (options.gpus) {
    Result<Devices> gpus = OpenGpus(options);
    if (gpus && !gpus->empty()) return gpus;
    if (!gpus && gpus.error().code != Code::kUnavailable) return gpus;
    // The CPU does not stand in for GPUs that were requested by number or
    // slice.
    if (!options.gpu_ordinals.empty() || !options.gpu_slices.empty()) {
      if (!gpus) return gpus;
      return Fail(Code::kUnavailable, "none of the GPUs could be opened");
    }
    why = gpus ? "none of the GPUs could be opened" : gpus.error().message;
  }
  if (options.cpu_devices == 0) {
    return Fail(Code::kUnavailable, "no GPU ({}), and the CPU is not requested",
                why);
  }
  Result<Devices> cpus = OpenCpus(options);
  if (!cpus && cpus.error().code == Code::kUnavailable) {
    return Fail(Code::kUnavailable, "no GPU ({}) and no CPU device ({})", why,
                cpus.error().message);
  }
  return cpus;
}

GpusSeen SeeGpus() {
#ifdef UCUDNN_WITH_CUDNN
  if (Result<VisibleGpus> gpus = FindVisibleGpus()) {
    return {std::move(gpus->uuids), gpus->current};
  }
#endif
  return {};
}

}  // namespace ucudnn
