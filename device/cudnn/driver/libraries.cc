#include "device/cudnn/driver/libraries.h"

#include <cstdlib>
#include <string_view>
#include <type_traits>

namespace ucudnn::cudnn {
namespace {

// Sets `*pointer` to `symbol`, or to null if the library does not have it.
template <class T>
bool Bind(const SharedLibrary& library, const char* symbol, T* pointer) {
  *pointer = reinterpret_cast<T>(library.Find(symbol));
  return *pointer != nullptr;
}

// The text of a function's name after the headers' macros have renamed it:
// cuMemAlloc is exported as cuMemAlloc_v2.
#define UCUDNN_TEXT_INNER(name) #name
#define UCUDNN_TEXT(name) UCUDNN_TEXT_INNER(name)
#define UCUDNN_BIND(member, function)                                          \
  if (!Bind(library, UCUDNN_TEXT(function), &api->member)) {                   \
    return Fail(Code::kUnimplemented, "{} has no function {}", library.path(), \
                UCUDNN_TEXT(function));                                        \
  }
#define UCUDNN_BIND_OPTIONAL(member, function) \
  (void)Bind(library, UCUDNN_TEXT(function), &api->member);

Status BindDriver(const SharedLibrary& library, DriverApi* api) {
  UCUDNN_DRIVER_FUNCTIONS(UCUDNN_BIND)
  UCUDNN_DRIVER_OPTIONAL_FUNCTIONS(UCUDNN_BIND_OPTIONAL)
  (void)Bind(library, "cuDeviceGetUuid", &api->DeviceGetGpuUuid);
  (void)Bind(library, "cuStreamGetCaptureInfo_v2", &api->StreamGetCaptureInfo);
  // Drivers before CUDA 12.8 have only its first version, which is sufficient.
  if (api->EventElapsedTime == nullptr &&
      !Bind(library, "cuEventElapsedTime", &api->EventElapsedTime)) {
    return Fail(Code::kUnimplemented, "{} has no function cuEventElapsedTime",
                library.path());
  }
  return {};
}

Status BindCudnn(const SharedLibrary& library, CudnnApi* api) {
  UCUDNN_CUDNN_FUNCTIONS(UCUDNN_BIND)
  return {};
}

#undef UCUDNN_BIND
#undef UCUDNN_BIND_OPTIONAL

void BindNvml(const SharedLibrary& library, NvmlApi* api) {
  (void)Bind(library, "nvmlInit_v2", &api->Init);
  (void)Bind(library, "nvmlErrorString", &api->ErrorString);
  (void)Bind(library, "nvmlSystemGetDriverVersion",
             &api->SystemGetDriverVersion);
  (void)Bind(library, "nvmlDeviceGetHandleByUUID", &api->DeviceGetHandleByUuid);
  (void)Bind(library, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
             &api->DeviceGetGpuOfMig);
  // The third version has the second one's entries.
  if (!Bind(library, "nvmlDeviceGetComputeRunningProcesses_v3",
            &api->DeviceGetComputeRunningProcesses)) {
    (void)Bind(library, "nvmlDeviceGetComputeRunningProcesses_v2",
               &api->DeviceGetComputeRunningProcesses);
  }
  (void)Bind(library, "nvmlDeviceGetClockInfo", &api->DeviceGetClockInfo);
  (void)Bind(library, "nvmlDeviceGetEnforcedPowerLimit",
             &api->DeviceGetEnforcedPowerLimit);
  (void)Bind(library, "nvmlDeviceGetPowerManagementDefaultLimit",
             &api->DeviceGetDefaultPowerLimit);
  (void)Bind(library, "nvmlDeviceGetApplicationsClock",
             &api->DeviceGetApplicationsClock);
  (void)Bind(library, "nvmlDeviceGetDefaultApplicationsClock",
             &api->DeviceGetDefaultApplicationsClock);
  if (!Bind(library, "nvmlDeviceGetCurrentClocksEventReasons",
            &api->DeviceGetThrottleReasons)) {
    (void)Bind(library, "nvmlDeviceGetCurrentClocksThrottleReasons",
               &api->DeviceGetThrottleReasons);
  }
}

void AppendDirectories(std::string_view list, std::vector<std::string>* into) {
  while (!list.empty()) {
    const std::size_t colon = list.find(':');
    const std::string directory(list.substr(0, colon));
    if (!directory.empty()) {
      into->push_back(directory);
      into->push_back(directory + "/lib64");
      into->push_back(directory + "/lib");
    }
    list = colon == std::string_view::npos ? "" : list.substr(colon + 1);
  }
}

}  // namespace

std::vector<std::string> SearchDirectories() {
  std::vector<std::string> directories;
  if (const char* path = std::getenv("UCUDNN_CUDA_PATH")) {
    AppendDirectories(path, &directories);
  }
  if (const char* home = std::getenv("CUDA_HOME"); home && *home != '\0') {
    directories.push_back(std::string(home) + "/lib64");
    directories.push_back(std::string(home) + "/lib");
  }
  return directories;
}

Result<Libraries> LoadLibraries(const std::vector<std::string>& directories) {
  Libraries libraries;
  auto driver = SharedLibrary::Open({"libcuda.so.1"}, directories);
  if (!driver) return Within("no NVIDIA driver", driver.error());
  UCUDNN_RETURN_IF_ERROR(BindDriver(*driver, &libraries.driver));

  const std::string name = fmt::format("libcudnn.so.{}", CUDNN_MAJOR);
  auto cudnn = SharedLibrary::Open({name}, directories);
  if (!cudnn) {
    return Within("no cuDNN (UCUDNN_CUDA_PATH may name its directory)",
                  cudnn.error());
  }
  UCUDNN_RETURN_IF_ERROR(BindCudnn(*cudnn, &libraries.cudnn));
  const std::size_t version = libraries.cudnn.GetVersion();
  if (version / 10000 != CUDNN_MAJOR) {
    return Fail(Code::kUnimplemented, "{} is cuDNN {}; {}.x is needed",
                cudnn->path(), CudnnFullVersion(version), CUDNN_MAJOR);
  }

  auto nvml = SharedLibrary::Open({"libnvidia-ml.so.1"}, directories);
  if (!nvml) {
    libraries.why_no_nvml = nvml.error().message;
    return libraries;
  }
  BindNvml(*nvml, &libraries.nvml);
  // Reference-counted; stays initialised as long as the process lives.
  const NvmlReturn begun = libraries.nvml.Init == nullptr
                               ? kNvmlNotFound
                               : libraries.nvml.Init();
  if (begun != kNvmlSuccess) {
    libraries.why_no_nvml =
        fmt::format("{}: {}", nvml->path(), NvmlText(libraries.nvml, begun));
    libraries.nvml = {};
  }
  return libraries;
}

Result<const Libraries*> LoadedLibraries() {
  static const Result<Libraries> libraries = LoadLibraries(SearchDirectories());
  if (!libraries) return tl::unexpected<Error>(libraries.error());
  return &*libraries;
}

std::string NvmlText(const NvmlApi& nvml, NvmlReturn result) {
  return nvml.ErrorString != nullptr
             ? std::string(nvml.ErrorString(result))
             : fmt::format("NVML error {}", static_cast<int>(result));
}

std::string CudnnMajorMinor(std::size_t version) {
  return fmt::format("{}.{}", version / 10000, version / 100 % 100);
}

std::string CudnnFullVersion(std::size_t version) {
  return fmt::format("{}.{}", CudnnMajorMinor(version), version % 100);
}

std::string CudaVersion(int version) {
  return fmt::format("{}.{}", version / 1000, version / 10 % 100);
}

std::string UuidText(const char* bytes, std::string_view of) {
  std::string text(of);
  for (int i = 0; i < 16; ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(bytes[i]));
  }
  return text;
}

}  // namespace ucudnn::cudnn
