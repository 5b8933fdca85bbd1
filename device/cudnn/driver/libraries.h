#ifndef UCUDNN_DEVICE_CUDNN_DRIVER_LIBRARIES_H_
#define UCUDNN_DEVICE_CUDNN_DRIVER_LIBRARIES_H_

// NVIDIA's libraries, loaded at run time. None of them is linked, so a program
// that can use a GPU also starts on machines without one.
//
//   UCUDNN_ASSIGN_OR_RETURN(const Libraries* libraries, LoadedLibraries());
//   libraries->driver.Init(0);
//
// Work on the device goes through the driver's API. The CUDA runtime is not
// needed: cuDNN has its own, which uses the driver's current context. A library
// is the one that the process has; else it is searched for by the loader's
// usual rules, then in $UCUDNN_CUDA_PATH (directories separated by colons, and
// their lib64 and lib), then in $CUDA_HOME/lib64 and $CUDA_HOME/lib. Once
// loaded it stays until the process ends. All of this is thread safe.
//
// One binary runs with cuDNN 8 and 9, and drivers from CUDA 11.4 on, though the
// headers are of newer ones (ADR 65): what an older library lacks is optional
// in the tables, and tests/device/cudnn/cudnn_abi.cc asserts that the rest is
// the same.

#include <cuda.h>
#include <cudnn.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/service/shared_library.h"
#include "device/cudnn/driver/function.h"
#include "device/cudnn/driver/nvml_types.h"

#if CUDNN_MAJOR < 9 || CUDA_VERSION < 12040
#error "cuDNN 9 and CUDA 12.4 or later are needed to build device/cudnn"
#endif

namespace ucudnn::cudnn {

// X(member, function): the driver's functions that name GPUs, which drivers
// too old for anything else have too.
#define UCUDNN_DRIVER_NAMING_FUNCTIONS(X) \
  X(Init, cuInit)                         \
  X(DriverGetVersion, cuDriverGetVersion) \
  X(GetErrorName, cuGetErrorName)         \
  X(GetErrorString, cuGetErrorString)     \
  X(DeviceGetCount, cuDeviceGetCount)     \
  X(DeviceGet, cuDeviceGet)               \
  X(DeviceGetName, cuDeviceGetName)       \
  X(DeviceTotalMem, cuDeviceTotalMem)     \
  X(DeviceGetAttribute, cuDeviceGetAttribute)

// What every driver since CUDA 11.4 has.
#define UCUDNN_DRIVER_FUNCTIONS(X)                                      \
  X(DeviceGetUuid, cuDeviceGetUuid)                                     \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                   \
  X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease)                 \
  X(CtxPushCurrent, cuCtxPushCurrent)                                   \
  X(CtxPopCurrent, cuCtxPopCurrent)                                     \
  X(CtxGetCurrent, cuCtxGetCurrent)                                     \
  X(CtxGetDevice, cuCtxGetDevice)                                       \
  X(CtxSynchronize, cuCtxSynchronize)                                   \
  X(StreamCreate, cuStreamCreate)                                       \
  X(StreamDestroy, cuStreamDestroy)                                     \
  X(StreamSynchronize, cuStreamSynchronize)                             \
  X(StreamQuery, cuStreamQuery)                                         \
  X(StreamIsCapturing, cuStreamIsCapturing)                             \
  X(ThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode) \
  X(EventCreate, cuEventCreate)                                         \
  X(EventDestroy, cuEventDestroy)                                       \
  X(EventRecord, cuEventRecord)                                         \
  X(EventQuery, cuEventQuery)                                           \
  X(EventSynchronize, cuEventSynchronize)                               \
  X(MemGetInfo, cuMemGetInfo)                                           \
  X(MemAlloc, cuMemAlloc)                                               \
  X(MemFree, cuMemFree)                                                 \
  X(MemcpyHtoDAsync, cuMemcpyHtoDAsync)                                 \
  X(MemcpyDtoHAsync, cuMemcpyDtoHAsync)                                 \
  X(MemsetD8Async, cuMemsetD8Async)

// Null if the driver is too old for them: green contexts need CUDA 12.4.
#define UCUDNN_DRIVER_OPTIONAL_FUNCTIONS(X)                 \
  X(EventElapsedTime, cuEventElapsedTime)                   \
  X(LaunchHostFunc, cuLaunchHostFunc)                       \
  X(MemHostAlloc, cuMemHostAlloc)                           \
  X(MemFreeHost, cuMemFreeHost)                             \
  X(MemHostRegister, cuMemHostRegister)                     \
  X(MemHostUnregister, cuMemHostUnregister)                 \
  X(MemcpyDtoDAsync, cuMemcpyDtoDAsync)                     \
  X(PointerGetAttribute, cuPointerGetAttribute)             \
  X(DeviceGetDevResource, cuDeviceGetDevResource)           \
  X(CtxGetDevResource, cuCtxGetDevResource)                 \
  X(DevSmResourceSplitByCount, cuDevSmResourceSplitByCount) \
  X(DevResourceGenerateDesc, cuDevResourceGenerateDesc)     \
  X(GreenCtxCreate, cuGreenCtxCreate)                       \
  X(GreenCtxDestroy, cuGreenCtxDestroy)                     \
  X(CtxFromGreenCtx, cuCtxFromGreenCtx)                     \
  X(GreenCtxStreamCreate, cuGreenCtxStreamCreate)           \
  X(StreamGetGreenCtx, cuStreamGetGreenCtx)                 \
  X(StreamWaitEvent, cuStreamWaitEvent)                     \
  X(ModuleLoadData, cuModuleLoadData)                       \
  X(ModuleUnload, cuModuleUnload)                           \
  X(ModuleGetFunction, cuModuleGetFunction)                 \
  X(LaunchKernel, cuLaunchKernel)                           \
  X(StreamBeginCapture, cuStreamBeginCapture)               \
  X(StreamEndCapture, cuStreamEndCapture)                   \
  X(GraphGetNodes, cuGraphGetNodes)                         \
  X(GraphDestroy, cuGraphDestroy)                           \
  X(GraphInstantiate, cuGraphInstantiateWithFlags)          \
  X(GraphExecUpdate, cuGraphExecUpdate)                     \
  X(GraphExecDestroy, cuGraphExecDestroy)                   \
  X(GraphUpload, cuGraphUpload)                             \
  X(GraphLaunch, cuGraphLaunch)

#define UCUDNN_CUDNN_FUNCTIONS(X)                                              \
  X(GetVersion, cudnnGetVersion)                                               \
  X(GetErrorString, cudnnGetErrorString)                                       \
  X(Create, cudnnCreate)                                                       \
  X(Destroy, cudnnDestroy)                                                     \
  X(SetStream, cudnnSetStream)                                                 \
  X(GetStream, cudnnGetStream)                                                 \
  X(CreateTensorDescriptor, cudnnCreateTensorDescriptor)                       \
  X(DestroyTensorDescriptor, cudnnDestroyTensorDescriptor)                     \
  X(SetTensorNdDescriptor, cudnnSetTensorNdDescriptor)                         \
  X(CreateFilterDescriptor, cudnnCreateFilterDescriptor)                       \
  X(DestroyFilterDescriptor, cudnnDestroyFilterDescriptor)                     \
  X(SetFilterNdDescriptor, cudnnSetFilterNdDescriptor)                         \
  X(CreateConvolutionDescriptor, cudnnCreateConvolutionDescriptor)             \
  X(DestroyConvolutionDescriptor, cudnnDestroyConvolutionDescriptor)           \
  X(SetConvolutionNdDescriptor, cudnnSetConvolutionNdDescriptor)               \
  X(SetConvolutionGroupCount, cudnnSetConvolutionGroupCount)                   \
  X(SetConvolutionMathType, cudnnSetConvolutionMathType)                       \
  X(GetForwardWorkspaceSize, cudnnGetConvolutionForwardWorkspaceSize)          \
  X(GetBackwardDataWorkspaceSize,                                              \
    cudnnGetConvolutionBackwardDataWorkspaceSize)                              \
  X(GetBackwardFilterWorkspaceSize,                                            \
    cudnnGetConvolutionBackwardFilterWorkspaceSize)                            \
  X(ConvolutionForward, cudnnConvolutionForward)                               \
  X(ConvolutionBackwardData, cudnnConvolutionBackwardData)                     \
  X(ConvolutionBackwardFilter, cudnnConvolutionBackwardFilter)                 \
  X(GetTensorNdDescriptor, cudnnGetTensorNdDescriptor)                         \
  X(GetFilterNdDescriptor, cudnnGetFilterNdDescriptor)                         \
  X(GetConvolutionNdDescriptor, cudnnGetConvolutionNdDescriptor)               \
  X(GetConvolutionMathType, cudnnGetConvolutionMathType)                       \
  X(GetConvolutionGroupCount, cudnnGetConvolutionGroupCount)                   \
  X(GetForwardAlgorithm, cudnnGetConvolutionForwardAlgorithm_v7)               \
  X(GetBackwardDataAlgorithm, cudnnGetConvolutionBackwardDataAlgorithm_v7)     \
  X(GetBackwardFilterAlgorithm, cudnnGetConvolutionBackwardFilterAlgorithm_v7) \
  X(FindForwardAlgorithm, cudnnFindConvolutionForwardAlgorithm)                \
  X(FindBackwardDataAlgorithm, cudnnFindConvolutionBackwardDataAlgorithm)      \
  X(FindBackwardFilterAlgorithm, cudnnFindConvolutionBackwardFilterAlgorithm)  \
  X(FindForwardAlgorithmEx, cudnnFindConvolutionForwardAlgorithmEx)            \
  X(FindBackwardDataAlgorithmEx, cudnnFindConvolutionBackwardDataAlgorithmEx)  \
  X(FindBackwardFilterAlgorithmEx,                                             \
    cudnnFindConvolutionBackwardFilterAlgorithmEx)                             \
  X(ScaleTensor, cudnnScaleTensor)                                             \
  X(AddTensor, cudnnAddTensor)                                                 \
  X(BackendCreateDescriptor, cudnnBackendCreateDescriptor)                     \
  X(BackendDestroyDescriptor, cudnnBackendDestroyDescriptor)                   \
  X(BackendSetAttribute, cudnnBackendSetAttribute)                             \
  X(BackendGetAttribute, cudnnBackendGetAttribute)                             \
  X(BackendFinalize, cudnnBackendFinalize)                                     \
  X(BackendExecute, cudnnBackendExecute)

// Of operators other than convolutions: deprecated, but present in versions 8
// and 9. Null if cuDNN does not have them.
#define UCUDNN_OPERATOR_FUNCTIONS(X)                                 \
  X(CreateActivation, cudnnCreateActivationDescriptor)               \
  X(SetActivation, cudnnSetActivationDescriptor)                     \
  X(DestroyActivation, cudnnDestroyActivationDescriptor)             \
  X(ActivationForward, cudnnActivationForward)                       \
  X(ActivationBackward, cudnnActivationBackward)                     \
  X(CreatePooling, cudnnCreatePoolingDescriptor)                     \
  X(SetPooling, cudnnSetPoolingNdDescriptor)                         \
  X(DestroyPooling, cudnnDestroyPoolingDescriptor)                   \
  X(CreateLocalResponse, cudnnCreateLRNDescriptor)                   \
  X(SetLocalResponse, cudnnSetLRNDescriptor)                         \
  X(DestroyLocalResponse, cudnnDestroyLRNDescriptor)                 \
  X(LocalResponseForward, cudnnLRNCrossChannelForward)               \
  X(LocalResponseBackward, cudnnLRNCrossChannelBackward)             \
  X(PoolingForward, cudnnPoolingForward)                             \
  X(PoolingBackward, cudnnPoolingBackward)                           \
  X(NormalisationForward, cudnnBatchNormalizationForwardTraining)    \
  X(NormalisationBackward, cudnnBatchNormalizationBackward)          \
  X(NormalisationInference, cudnnBatchNormalizationForwardInference) \
  X(BiasBackward, cudnnConvolutionBackwardBias)                      \
  X(SoftmaxForward, cudnnSoftmaxForward)

// Each function is of the type that the header declares.
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name is declared
#define UCUDNN_MEMBER(member, function) \
  Function<decltype(::function)> member{#function};
struct DriverApi {
  UCUDNN_DRIVER_NAMING_FUNCTIONS(UCUDNN_MEMBER)
  UCUDNN_DRIVER_FUNCTIONS(UCUDNN_MEMBER)
  UCUDNN_DRIVER_OPTIONAL_FUNCTIONS(UCUDNN_MEMBER)
  // Optional; its first version, which tells a MIG instance's GPU where the
  // second one tells the instance.
  Function<decltype(cuDeviceGetUuid)> DeviceGetGpuUuid{"cuDeviceGetUuid"};
  // Optional; in the form that CUDA 11.3 introduced, since newer headers
  // declare another one.
  CUresult(CUDAAPI* StreamGetCaptureInfo)(CUstream, CUstreamCaptureStatus*,
                                          cuuint64_t*, CUgraph*,
                                          const CUgraphNode**,
                                          std::size_t*) = nullptr;
  // The same.
  CUresult(CUDAAPI* StreamUpdateCaptureDependencies)(CUstream, CUgraphNode*,
                                                     std::size_t,
                                                     unsigned int) = nullptr;
  // Optional; GraphExecUpdate before CUDA 12.0.
  CUresult(CUDAAPI* GraphExecUpdateV1)(CUgraphExec, CUgraph, CUgraphNode*,
                                       CUgraphExecUpdateResult*) = nullptr;
};
struct CudnnApi {
  UCUDNN_CUDNN_FUNCTIONS(UCUDNN_MEMBER)
  UCUDNN_OPERATOR_FUNCTIONS(UCUDNN_MEMBER)
  UCUDNN_MEMBER(GetLastErrorString, cudnnGetLastErrorString)  // null in 8
};
#undef UCUDNN_MEMBER

struct Libraries {
  DriverApi driver;
  CudnnApi cudnn;
  NvmlApi nvml;  // all null without the library, or if it cannot be used
  std::string why_no_nvml;
  std::optional<SharedLibrary> cudnn_library;  // cudnn's
  // Whether GPUs can be used. If not, why, and what is needed: kUnavailable
  // without cuDNN; kUnimplemented if the driver or cuDNN is too old or lacks a
  // function. Only the naming functions, cudnn.GetVersion if cuDNN was found,
  // and nvml are there then.
  Status usable;
};

// The directories that the environment names, as described above.
std::vector<std::string> SearchDirectories();

// cuDNN 9, else 8, else an older one, which nothing here can use. kUnavailable.
Result<SharedLibrary> OpenCudnn(const std::vector<std::string>& directories);

// kUnavailable without a driver ("no NVIDIA driver: libcuda.so.1 was not
// found").
Result<Libraries> LoadLibraries(const std::vector<std::string>& directories);

// The same from SearchDirectories(), once in a process.
const Result<Libraries>& FoundLibraries();
// Those that can be used; else the error, or why they cannot.
Result<const Libraries*> LoadedLibraries();

// kUnimplemented, naming the function, if cuDNN lacks one of the operators'.
Status CheckOperators(const CudnnApi& cudnn);

// Whether cuDNN `version` has code for GPUs of this compute capability (37 for
// 3.7). kUnimplemented says which version has.
Status CheckCapability(std::size_t version, int capability);

// A status of ours, of version 9's enumeration, as the cuDNN of this process
// numbers it.
cudnnStatus_t StatusHere(cudnnStatus_t status);

// "580.159.04", or "unknown".
std::string DriverVersion(const NvmlApi& nvml);

// What a function of the management library returned, in its words.
std::string NvmlText(const NvmlApi& nvml, NvmlReturn result);

// "9.19" and "9.19.0", or "8.9" and "8.9.6", from cudnnGetVersion's number, and
// "13.0" from cuDriverGetVersion's.
std::string CudnnMajorMinor(std::size_t version);
std::string CudnnFullVersion(std::size_t version);
std::string CudaVersion(int version);

// The 16 bytes of a UUID as nvidia-smi spells it, of a GPU or a MIG instance:
// "GPU-8a3c0e6b-1f2d-4c5e-9b7a-0123456789ab".
std::string UuidText(const char* bytes, std::string_view of = "GPU");

}  // namespace ucudnn::cudnn

#endif  // UCUDNN_DEVICE_CUDNN_DRIVER_LIBRARIES_H_
