#include "device/cudnn/handle.h"

#include <array>
#include <utility>

#include "device/cudnn/branch_stream.h"
#include "device/cudnn/graph/engine_cache.h"
#include "device/cudnn/graph/engine_check.h"

namespace ucudnn::cudnn {
namespace {

// The category of a status, version 9's thousands: 1 not initialised, 2 bad
// parameter, 3 not supported, 4 internal, 5 execution failed. Version 8 counts
// its statuses from 0 to 14.
int CategoryOf(cudnnStatus_t status) {
  constexpr std::string_view kOfVersion8 = "014242345313111";
  const auto value = static_cast<std::size_t>(status);
  return value < kOfVersion8.size() ? kOfVersion8[value] - '0'
                                    : static_cast<int>(value / 1000);
}

Code CodeOf(cudnnStatus_t status) {
  constexpr auto kAllocFailedOfVersion8 = static_cast<cudnnStatus_t>(2);
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
      status == kAllocFailedOfVersion8) {
    return Code::kResourceExhausted;
  }
  switch (CategoryOf(status)) {
    case 1:
      return Code::kUnavailable;
    case 2:
      return Code::kInvalidArgument;
    case 3:
      return Code::kUnimplemented;
    default:
      return Code::kInternal;
  }
}

}  // namespace

Error DescribeError(const CudnnApi& api, cudnnStatus_t status,
                    std::string_view call) {
  std::array<char, 512> explanation = {};
  if (api.GetLastErrorString != nullptr) {
    api.GetLastErrorString(explanation.data(), explanation.size());
  }
  explanation.back() = '\0';
  std::string message = fmt::format("{}: {}", call, api.GetErrorString(status));
  std::string_view reason = explanation.data();
  while (!reason.empty() && (reason.back() == '\n' || reason.back() == ' ')) {
    reason.remove_suffix(1);
  }
  if (!reason.empty()) message += fmt::format(" ({})", reason);
  return {CodeOf(status), std::move(message)};
}

CudnnHandle::CudnnHandle(const CudnnApi& api, GpuContext* context,
                         cudnnHandle_t handle)
    : api_(api),
      context_(context),
      handle_(handle),
      engine_validation_(std::make_unique<EngineValidation>()) {}

Result<std::unique_ptr<CudnnHandle>> CudnnHandle::Create(const CudnnApi& api,
                                                         GpuContext& context) {
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context.Enter());
  std::unique_ptr<CudnnHandle> handle(new CudnnHandle(api, &context, nullptr));
  UCUDNN_RETURN_IF_ERROR(handle->Call(api.Create, &handle->handle_));
  UCUDNN_RETURN_IF_ERROR(
      handle->Call(api.SetStream, handle->handle_, context.stream()));
  return handle;
}

std::unique_ptr<CudnnHandle> CudnnHandle::Wrap(const CudnnApi& api,
                                               cudnnHandle_t handle,
                                               const DriverApi* driver) {
  std::unique_ptr<CudnnHandle> wrapped(new CudnnHandle(api, nullptr, handle));
  wrapped->driver_ = driver;
  return wrapped;
}

CudnnHandle::~CudnnHandle() {
  engine_cache_.reset();
  const auto scope = Enter();
  if (!scope) {
    // Nothing can be released in a lost context.
    (void)branch_stream_.release();
    return;
  }
  branch_stream_.reset();
  if (context_ != nullptr && handle_ != nullptr) (void)api_.Destroy(handle_);
}

Result<std::optional<GpuContext::Scope>> CudnnHandle::Enter() {
  if (context_ == nullptr) return std::optional<GpuContext::Scope>();
  UCUDNN_ASSIGN_OR_RETURN(auto scope, context_->Enter());
  return std::optional<GpuContext::Scope>(std::move(scope));
}

Status CudnnHandle::Check(cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return {};
  Error error = DescribeError(api_, status, call);
  // Internal errors and failed executions may come from a poisoned context.
  if (context_ != nullptr && CategoryOf(status) >= 4) {
    UCUDNN_RETURN_IF_ERROR(context_->CheckStream());
  }
  return tl::unexpected<Error>(std::move(error));
}

Status CudnnHandle::Check(CUresult result, std::string_view call) {
  if (result == CUDA_SUCCESS) return {};
  if (context_ != nullptr) return context_->Check(result, call);
  UCUDNN_ASSIGN_OR_RETURN(const DriverApi* known, driver());
  return tl::unexpected<Error>(DescribeError(*known, result, call));
}

Status CudnnHandle::CheckLost() const {
  if (context_ == nullptr || !context_->lost()) return {};
  return tl::unexpected<Error>(*context_->lost());
}

std::int64_t CudnnHandle::slice_sms() const {
  return context_ != nullptr && context_->is_slice() ? context_->sms() : 0;
}

Result<const DriverApi*> CudnnHandle::driver() const {
  if (driver_ != nullptr) return driver_;
  if (context_ != nullptr) return &context_->driver();
  UCUDNN_ASSIGN_OR_RETURN(const Libraries* libraries, LoadedLibraries());
  return &libraries->driver;
}

Result<CUstream> CudnnHandle::stream() {
  cudaStream_t stream = nullptr;
  UCUDNN_RETURN_IF_ERROR(Call(api_.GetStream, handle_, &stream));
  return stream;
}

Result<BranchStream*> CudnnHandle::branch_stream() {
  if (branch_stream_ == nullptr) {
    UCUDNN_ASSIGN_OR_RETURN(branch_stream_, BranchStream::Create(*this));
  }
  return branch_stream_.get();
}

}  // namespace ucudnn::cudnn
