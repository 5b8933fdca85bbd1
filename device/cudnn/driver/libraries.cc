#include "device/cudnn/driver/libraries.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

namespace ucudnn::cudnn {
namespace {

// Sets `*function` to `symbol`, or to null if the library does not have it.
template <class... P, class R>
bool Bind(const SharedLibrary& library, const char* symbol,
          R (**function)(P...)) {
  *function = reinterpret_cast<R (*)(P...)>(library.Find(symbol));
  return *function != nullptr;
}

template <class Type>
bool Bind(const SharedLibrary& library, const char* symbol,
          Function<Type>* function) {
  *function = reinterpret_cast<Type*>(library.Find(symbol));
  return *function != nullptr;
}

// The text of a function's name after the headers' macros have renamed it:
// cuMemAlloc is exported as cuMemAlloc_v2.
#define UCUDNN_TEXT_INNER(name) #name
#define UCUDNN_TEXT(name) UCUDNN_TEXT_INNER(name)
#define UCUDNN_BIND(member, function)                                 \
  if (!Bind(library, UCUDNN_TEXT(function), &api->member) && bound) { \
    bound = Lacks(library, UCUDNN_TEXT(function));                    \
  }
#define UCUDNN_BIND_OPTIONAL(member, function) \
  (void)Bind(library, UCUDNN_TEXT(function), &api->member);

tl::unexpected<Error> Lacks(const SharedLibrary& library,
                            std::string_view function) {
  return Fail(Code::kUnimplemented, "{} has no function {}", library.path(),
              function);
}

Status BindNaming(const SharedLibrary& library, DriverApi* api) {
  Status bound;
  UCUDNN_DRIVER_NAMING_FUNCTIONS(UCUDNN_BIND)
  (void)Bind(library, "cuDeviceGetUuid", &api->DeviceGetGpuUuid);
  return bound;
}

// Also before cuInit.
Status CheckVersion(const DriverApi& api, const NvmlApi& nvml) {
  constexpr int kOldest = 11040;
  int version = 0;
  if (api.DriverGetVersion(&version) != CUDA_SUCCESS || version >= kOldest) {
    return {};  // the functions tell
  }
  return Fail(Code::kUnimplemented,
              "the NVIDIA driver is {} (CUDA {}); 470 or newer (CUDA 11.4) is "
              "needed",
              DriverVersion(nvml), CudaVersion(version));
}

Status BindDriver(const SharedLibrary& library, DriverApi* api) {
  Status bound;
  UCUDNN_DRIVER_FUNCTIONS(UCUDNN_BIND)
  UCUDNN_DRIVER_OPTIONAL_FUNCTIONS(UCUDNN_BIND_OPTIONAL)
  (void)Bind(library, "cuStreamGetCaptureInfo_v2", &api->StreamGetCaptureInfo);
  (void)Bind(library, "cuStreamUpdateCaptureDependencies",
             &api->StreamUpdateCaptureDependencies);
  (void)Bind(library, "cuGraphExecUpdate", &api->GraphExecUpdateV1);
  // Drivers before CUDA 12.8 have only its first version, which is sufficient.
  if (bound && api->EventElapsedTime == nullptr &&
      !Bind(library, "cuEventElapsedTime", &api->EventElapsedTime)) {
    return Lacks(library, "cuEventElapsedTime");
  }
  return bound;
}

// cuDNN 8 aborts the process if it cannot load one of its parts when it needs
// it, so they are loaded before it is asked for anything.
Status LoadParts(const SharedLibrary& library) {
  const std::string& path = library.path();
  if (!path.ends_with(".so.8")) return {};
  for (const std::string_view part :
       {"ops_infer", "ops_train", "cnn_infer", "cnn_train"}) {
    const std::string name = fmt::format("libcudnn_{}.so.8", part);
    const auto loaded = SharedLibrary::Open(
        {path.substr(0, path.rfind('/') + 1) + name, name}, {});
    if (!loaded) return Within("cuDNN is incomplete", loaded.error());
  }
  return {};
}

Status BindCudnn(const SharedLibrary& library, CudnnApi* api) {
  constexpr std::size_t kOldest = 8000;
  UCUDNN_RETURN_IF_ERROR(LoadParts(library));
  Status bound;
  if (!Bind(library, "cudnnGetVersion", &api->GetVersion)) {
    return Lacks(library, "cudnnGetVersion");
  }
  if (const std::size_t version = api->GetVersion(); version < kOldest) {
    return Fail(Code::kUnimplemented,
                "cuDNN {} was found at {}; 8.0 or newer is needed",
                CudnnFullVersion(version), library.path());
  }
  UCUDNN_CUDNN_FUNCTIONS(UCUDNN_BIND)
  UCUDNN_OPERATOR_FUNCTIONS(UCUDNN_BIND_OPTIONAL)
  UCUDNN_BIND_OPTIONAL(GetLastErrorString, cudnnGetLastErrorString)
  return bound;
}

#undef UCUDNN_BIND
#undef UCUDNN_BIND_OPTIONAL

void BindNvml(const SharedLibrary& library, NvmlApi* api) {
  const auto bind = [&](auto&... functions) {
    ((Bind(library, functions.name(), &functions) ||
      (functions.old_name() != nullptr &&
       Bind(library, functions.old_name(), &functions))),
     ...);
  };
  bind(api->Init, api->ErrorString, api->SystemGetDriverVersion,
       api->DeviceGetHandleByUuid, api->DeviceGetGpuOfMig,
       api->DeviceGetComputeRunningProcesses, api->DeviceGetClockInfo,
       api->DeviceGetEnforcedPowerLimit, api->DeviceGetDefaultPowerLimit,
       api->DeviceGetApplicationsClock, api->DeviceGetDefaultApplicationsClock,
       api->DeviceGetThrottleReasons);
}

void LoadNvml(const std::vector<std::string>& directories,
              Libraries* libraries) {
  auto nvml = SharedLibrary::Open({"libnvidia-ml.so.1"}, directories);
  if (!nvml) {
    libraries->why_no_nvml = nvml.error().message;
    return;
  }
  BindNvml(*nvml, &libraries->nvml);
  // Reference-counted; stays initialised as long as the process lives.
  const NvmlReturn begun =
      libraries->nvml.Init == nullptr ? kNvmlNotFound : libraries->nvml.Init();
  if (begun == kNvmlSuccess) return;
  libraries->why_no_nvml =
      fmt::format("{}: {}", nvml->path(), NvmlText(libraries->nvml, begun));
  libraries->nvml = {};
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

Result<SharedLibrary> OpenCudnn(const std::vector<std::string>& directories) {
  return SharedLibrary::Open(
      {"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so.7"}, directories);
}

Result<Libraries> LoadLibraries(const std::vector<std::string>& directories) {
  Libraries libraries;
  auto driver = SharedLibrary::Open({"libcuda.so.1"}, directories);
  if (!driver) return Within("no NVIDIA driver", driver.error());
  UCUDNN_RETURN_IF_ERROR(BindNaming(*driver, &libraries.driver));
  LoadNvml(directories, &libraries);
  auto cudnn = OpenCudnn(directories);
  if (cudnn) {
    libraries.usable = BindCudnn(*cudnn, &libraries.cudnn);
    libraries.cudnn_library = *std::move(cudnn);
  } else {
    libraries.usable = Within(
        "no cuDNN (UCUDNN_CUDA_PATH may name its directory)", cudnn.error());
  }
  // Of several lacks the driver's is told.
  Status bound = CheckVersion(libraries.driver, libraries.nvml);
  if (bound) bound = BindDriver(*driver, &libraries.driver);
  if (!bound) libraries.usable = bound;
  return libraries;
}

const Result<Libraries>& FoundLibraries() {
  static const Result<Libraries> libraries = LoadLibraries(SearchDirectories());
  return libraries;
}

Result<const Libraries*> LoadedLibraries() {
  const Result<Libraries>& found = FoundLibraries();
  if (!found) return tl::unexpected<Error>(found.error());
  if (!found->usable) return tl::unexpected<Error>(found->usable.error());
  return &*found;
}

Status CheckOperators(const CudnnApi& cudnn) {
#define UCUDNN_CHECK_BOUND(member, function)                               \
  if (cudnn.member == nullptr) {                                           \
    return Fail(Code::kUnimplemented, "cuDNN has no function " #function); \
  }
  UCUDNN_OPERATOR_FUNCTIONS(UCUDNN_CHECK_BOUND)
#undef UCUDNN_CHECK_BOUND
  return {};
}

Status CheckCapability(std::size_t version, int capability) {
  // What NVIDIA's packages have code for, each row from its version on.
  struct Row {
    std::size_t version;
    int least;
  };
  constexpr Row kRows[] = {{8000, 35}, {8800, 50}, {91100, 75}};
  const auto after = std::ranges::find_if(
      kRows, [&](const Row& row) { return row.version > version; });
  if (after == std::begin(kRows) || capability >= std::prev(after)->least) {
    return {};
  }
  const auto older = std::ranges::find_if(
      kRows, [&](const Row& row) { return row.least > capability; });
  const auto text = [](int of) {
    return fmt::format("{}.{}", of / 10, of % 10);
  };
  return Fail(Code::kUnimplemented,
              "its compute capability is {}, and cuDNN {} is for {} and newer; "
              "{}",
              text(capability), CudnnFullVersion(version),
              text(std::prev(after)->least),
              older == std::begin(kRows)
                  ? "no version is for it"
                  : fmt::format("cuDNN 8.0 or newer, but older than {}, is "
                                "needed",
                                CudnnMajorMinor(older->version)));
}

cudnnStatus_t StatusHere(cudnnStatus_t status) {
  const auto libraries = LoadedLibraries();
  if (!libraries || (*libraries)->cudnn.GetVersion() >= 90000) return status;
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return status;
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
      return static_cast<cudnnStatus_t>(2);
    case CUDNN_STATUS_BAD_PARAM:
    case CUDNN_STATUS_BAD_PARAM_NULL_POINTER:
      return static_cast<cudnnStatus_t>(3);
    case CUDNN_STATUS_NOT_SUPPORTED:
      return static_cast<cudnnStatus_t>(9);
    default:
      return static_cast<cudnnStatus_t>(8);  // the execution failed
  }
}

std::string NvmlText(const NvmlApi& nvml, NvmlReturn result) {
  return nvml.ErrorString != nullptr
             ? std::string(nvml.ErrorString(result))
             : fmt::format("NVML error {}", static_cast<int>(result));
}

std::string DriverVersion(const NvmlApi& nvml) {
  if (nvml.SystemGetDriverVersion != nullptr) {
    std::array<char, 96> text = {};
    if (nvml.SystemGetDriverVersion(text.data(),
                                    static_cast<unsigned int>(text.size())) ==
        kNvmlSuccess) {
      return text.data();
    }
  }
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue ..."
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    if (word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos) {
      return word;
    }
  }
  return "unknown";
}

std::string CudnnMajorMinor(std::size_t version) {
  // Before version 9, the major version was multiplied by 1000.
  if (version < 10'000) version += version / 1000 * 9000;
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
