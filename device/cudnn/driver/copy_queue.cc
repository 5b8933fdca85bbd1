#include "device/cudnn/driver/copy_queue.h"

#include "device/cudnn/driver/event.h"

namespace ucudnn::cudnn {

Result<std::unique_ptr<DriverCopyQueue>> DriverCopyQueue::Create(
    GpuContext& context) {
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context.Enter());
  CUstream stream = nullptr;
  UCUDNN_RETURN_IF_ERROR(context.Call(context.driver().StreamCreate, &stream,
                                      CU_STREAM_NON_BLOCKING));
  return std::unique_ptr<DriverCopyQueue>(new DriverCopyQueue(context, stream));
}

DriverCopyQueue::~DriverCopyQueue() {
  const auto scope = context_.Enter();
  if (!scope) return;
  (void)context_.driver().StreamSynchronize(stream_);
  (void)context_.driver().StreamDestroy(stream_);
}

Status DriverCopyQueue::Upload(void* device, const void* host, Bytes size) {
  if (size <= Bytes()) return {};
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_.Enter());
  return context_.Call(context_.driver().MemcpyHtoDAsync,
                       reinterpret_cast<CUdeviceptr>(device), host,
                       static_cast<std::size_t>(size.count()), stream_);
}

Status DriverCopyQueue::Download(void* host, const void* device, Bytes size) {
  if (size <= Bytes()) return {};
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_.Enter());
  return context_.Call(context_.driver().MemcpyDtoHAsync, host,
                       reinterpret_cast<CUdeviceptr>(device),
                       static_cast<std::size_t>(size.count()), stream_);
}

Status DriverCopyQueue::Set(Event& event) {
  UCUDNN_ASSIGN_OR_RETURN(DriverEvent* const ours, DriverEventOf(event));
  return ours->SetIn(stream_);
}

Status DriverCopyQueue::WaitFor(Event& event) {
  UCUDNN_ASSIGN_OR_RETURN(DriverEvent* const ours, DriverEventOf(event));
  return ours->WaitIn(stream_);
}

Status DriverCopyQueue::Synchronize() {
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_.Enter());
  return context_.Call(context_.driver().StreamSynchronize, stream_);
}

}  // namespace ucudnn::cudnn
