#include "device/cudnn/driver/context.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "base/text.h"

namespace ucudnn::cudnn {
namespace {

Code CodeOf(CUresult result) {
  if (IsLost(result)) return Code::kDataLoss;
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return Code::kResourceExhausted;
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER:
      return Code::kUnimplemented;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_STUB_LIBRARY:
      return Code::kUnavailable;
    default:
      return Code::kInternal;
  }
}

}  // namespace

bool IsLost(CUresult result) {
  switch (result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      // Errors that only newer headers name.
      return static_cast<int>(result) == 226 ||  // CONTAINED
             static_cast<int>(result) == 721;    // TENSOR_MEMORY_LEAK
  }
}

Result<int> CountGpus(const DriverApi& driver) {
  int count = 0;
  CUresult result = driver.Init(0);
  if (result == CUDA_SUCCESS) result = driver.DeviceGetCount(&count);
  if (result == CUDA_SUCCESS && count > 0) return count;
  if (result == CUDA_SUCCESS) result = CUDA_ERROR_NO_DEVICE;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  return Fail(
      Code::kUnavailable, "the NVIDIA driver offers no GPU{}: {}",
      visible == nullptr
          ? std::string()
          : fmt::format(" (CUDA_VISIBLE_DEVICES is '{}')", Excerpt(visible)),
      DescribeError(driver, result, "cuInit").message);
}

Result<std::string> UuidOf(const DriverApi& driver, CUdevice device) {
  CUuuid uuid = {};
  CUuuid gpu = {};
  std::array<char, 256> name = {};
  const auto get = driver.DeviceGetUuid != nullptr ? driver.DeviceGetUuid
                                                   : driver.DeviceGetGpuUuid;
  if (get == nullptr) {
    return Fail(Code::kUnimplemented, "the driver has no cuDeviceGetUuid");
  }
  UCUDNN_RETURN_IF_ERROR(Call(driver, get, &uuid, device));
  // No call says that a device is a MIG instance: it has a UUID beside its
  // GPU's, and a name such as "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
  const bool other_gpu =
      driver.DeviceGetGpuUuid != nullptr &&
      driver.DeviceGetGpuUuid(&gpu, device) == CUDA_SUCCESS &&
      !std::equal(std::begin(uuid.bytes), std::end(uuid.bytes), gpu.bytes);
  const bool named_mig =
      driver.DeviceGetName(name.data(), static_cast<int>(name.size()),
                           device) == CUDA_SUCCESS &&
      std::string_view(name.data()).find(" MIG ") != std::string_view::npos;
  return UuidText(uuid.bytes, other_gpu || named_mig ? "MIG" : "GPU");
}

CUgreenCtx GreenContextOf(const DriverApi& driver, CUstream stream) {
  CUgreenCtx green = nullptr;
  if (stream == nullptr || driver.StreamGetGreenCtx == nullptr ||
      driver.StreamGetGreenCtx(stream, &green) != CUDA_SUCCESS) {
    return nullptr;
  }
  return green;
}

Error DescribeError(const DriverApi& driver, CUresult result,
                    std::string_view call) {
  const char* name = nullptr;
  const char* text = nullptr;
  // Both leave the pointer null if they do not know the error.
  (void)driver.GetErrorName(result, &name);
  (void)driver.GetErrorString(result, &text);
  return {CodeOf(result),
          fmt::format("{}: {} ({})", call,
                      name != nullptr ? std::string(name)
                                      : fmt::format("CUDA error {}",
                                                    static_cast<int>(result)),
                      text != nullptr ? text : "no description")};
}

GpuContext::Scope::~Scope() {
  if (driver_ == nullptr) return;
  CUcontext popped = nullptr;
  (void)driver_->CtxPopCurrent(&popped);
}

Result<std::unique_ptr<GpuContext>> GpuContext::Create(const DriverApi& driver,
                                                       CUdevice device,
                                                       std::string name,
                                                       std::int64_t slice_sms) {
  std::unique_ptr<GpuContext> context(
      new GpuContext(driver, device, std::move(name)));
  UCUDNN_RETURN_IF_ERROR(context->Retain());
  if (slice_sms > 0) UCUDNN_RETURN_IF_ERROR(context->Slice(slice_sms));
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context->Enter());
  if (context->green_ != nullptr) {
    UCUDNN_RETURN_IF_ERROR(context->Call(driver.GreenCtxStreamCreate,
                                         &context->stream_, context->green_,
                                         CU_STREAM_NON_BLOCKING, 0));
  } else {
    UCUDNN_RETURN_IF_ERROR(context->Call(driver.StreamCreate, &context->stream_,
                                         CU_STREAM_NON_BLOCKING));
  }
  return context;
}

Result<std::unique_ptr<GpuContext>> GpuContext::Adopt(const DriverApi& driver,
                                                      CUcontext context,
                                                      std::string name) {
  if (context == nullptr) {
    return Fail(Code::kFailedPrecondition, "{}: there is no context to adopt",
                name);
  }
  if (driver.CtxPushCurrent(context) != CUDA_SUCCESS) {
    return Fail(Code::kFailedPrecondition, "{}: the context is unusable", name);
  }
  const Scope scope(&driver);
  CUdevice device = 0;
  if (const Status got =
          ucudnn::cudnn::Call(driver, driver.CtxGetDevice, &device);
      !got) {
    return Within(name, got.error());
  }
  std::unique_ptr<GpuContext> adopted(
      new GpuContext(driver, device, std::move(name)));
  adopted->current_ = context;
  UCUDNN_RETURN_IF_ERROR(adopted->CountMultiprocessors());
  CUdevResource mine = {};
  if (driver.CtxGetDevResource != nullptr &&
      driver.CtxGetDevResource(context, &mine, CU_DEV_RESOURCE_TYPE_SM) ==
          CUDA_SUCCESS &&
      mine.sm.smCount > 0) {
    adopted->is_slice_ = std::int64_t{mine.sm.smCount} < adopted->sms_;
    adopted->sms_ = mine.sm.smCount;
  }
  UCUDNN_RETURN_IF_ERROR(adopted->Call(driver.StreamCreate, &adopted->stream_,
                                       CU_STREAM_NON_BLOCKING));
  return adopted;
}

GpuContext::~GpuContext() {
  // Nothing can be released in a lost context; it goes when the process ends.
  if (lost_ || current_ == nullptr) return;
  if (stream_ != nullptr && driver_.CtxPushCurrent(current_) == CUDA_SUCCESS) {
    const Scope scope(&driver_);
    (void)driver_.StreamSynchronize(stream_);
    (void)driver_.StreamDestroy(stream_);
  }
  if (green_ != nullptr) (void)driver_.GreenCtxDestroy(green_);
  if (primary_ != nullptr) (void)driver_.DevicePrimaryCtxRelease(device_);
}

Status GpuContext::Retain() {
  UCUDNN_RETURN_IF_ERROR(
      Call(driver_.DevicePrimaryCtxRetain, &primary_, device_));
  current_ = primary_;
  return CountMultiprocessors();
}

Status GpuContext::CountMultiprocessors() {
  int sms = 0;
  UCUDNN_RETURN_IF_ERROR(Call(driver_.DeviceGetAttribute, &sms,
                              CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                              device_));
  sms_ = sms;
  return {};
}

Status GpuContext::Slice(std::int64_t sms) {
  if (driver_.DeviceGetDevResource == nullptr ||
      driver_.DevSmResourceSplitByCount == nullptr ||
      driver_.DevResourceGenerateDesc == nullptr ||
      driver_.GreenCtxCreate == nullptr || driver_.GreenCtxDestroy == nullptr ||
      driver_.CtxFromGreenCtx == nullptr ||
      driver_.GreenCtxStreamCreate == nullptr) {
    return Fail(Code::kUnimplemented,
                "{}: slices need a driver with green contexts (CUDA 12.4)",
                name_);
  }
  CUdevResource all = {};
  UCUDNN_RETURN_IF_ERROR(Call(driver_.DeviceGetDevResource, device_, &all,
                              CU_DEV_RESOURCE_TYPE_SM));
  if (sms > std::int64_t{all.sm.smCount}) {
    return Fail(Code::kInvalidArgument,
                "{}: a slice of {} multiprocessors was asked for; there are {}",
                name_, sms, all.sm.smCount);
  }
  CUdevResource part = {};
  CUdevResource rest = {};
  unsigned int parts = 1;
  UCUDNN_RETURN_IF_ERROR(Call(driver_.DevSmResourceSplitByCount, &part, &parts,
                              &all, &rest, 0, static_cast<unsigned int>(sms)));
  if (parts != 1) {
    return Fail(Code::kInvalidArgument,
                "{}: no slice of {} of its {} multiprocessors can be made",
                name_, sms, all.sm.smCount);
  }
  CUdevResourceDesc description = nullptr;
  UCUDNN_RETURN_IF_ERROR(
      Call(driver_.DevResourceGenerateDesc, &description, &part, 1));
  UCUDNN_RETURN_IF_ERROR(Call(driver_.GreenCtxCreate, &green_, description,
                              device_, CU_GREEN_CTX_DEFAULT_STREAM));
  UCUDNN_RETURN_IF_ERROR(Call(driver_.CtxFromGreenCtx, &current_, green_));
  sms_ = part.sm.smCount;
  is_slice_ = true;
  return {};
}

Result<GpuContext::Scope> GpuContext::Enter() {
  if (lost_) return tl::unexpected<Error>(*lost_);
  UCUDNN_RETURN_IF_ERROR(Call(driver_.CtxPushCurrent, current_));
  return Scope(&driver_);
}

Status GpuContext::Check(CUresult result, std::string_view call) {
  if (result == CUDA_SUCCESS) return {};
  Error error = DescribeError(driver_, result, call);
  if (error.code != Code::kDataLoss) {
    return tl::unexpected<Error>(std::move(error));
  }
  if (!lost_) {
    lost_ = Error{Code::kDataLoss,
                  fmt::format("{} is lost to this process, which must be "
                              "restarted: {}",
                              name_, error.message)};
  }
  return tl::unexpected<Error>(*lost_);
}

Status GpuContext::CheckStream() {
  if (lost_) return tl::unexpected<Error>(*lost_);
  const CUresult result = driver_.StreamQuery(stream_);
  if (result == CUDA_ERROR_NOT_READY) return {};
  return Check(result, "cuStreamQuery");
}

}  // namespace ucudnn::cudnn
