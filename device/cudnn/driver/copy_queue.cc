#include "device/cudnn/driver/copy_queue.h"

#include "device/cudnn/driver/event.h"

namespace ucudnn::cudnn {
namespace {

class DriverCopyQueue final : public CopyQueue {
 public:
  DriverCopyQueue(GpuContext& context, CUstream stream)
      : context_(context), stream_(stream) {}
  // Waits for the enqueued copies. In a lost context nothing can be destroyed.
  ~DriverCopyQueue() override {
    const auto scope = context_.Enter();
    if (!scope) return;
    (void)context_.driver().StreamSynchronize(stream_);
    (void)context_.driver().StreamDestroy(stream_);
  }
  DriverCopyQueue(const DriverCopyQueue&) = delete;
  DriverCopyQueue& operator=(const DriverCopyQueue&) = delete;

  Status Upload(void* device, const void* host, Bytes size) override {
    return EnqueueUpload(context_, stream_, device, host, size);
  }
  Status Download(void* host, const void* device, Bytes size) override {
    return EnqueueDownload(context_, stream_, host, device, size);
  }
  Status Set(Event& event) override {
    UCUDNN_ASSIGN_OR_RETURN(DriverEvent* const ours, DriverEventOf(event));
    return ours->SetIn(stream_);
  }
  Status WaitFor(Event& event) override {
    UCUDNN_ASSIGN_OR_RETURN(DriverEvent* const ours, DriverEventOf(event));
    return ours->WaitIn(stream_);
  }
  Status Synchronize() override {
    UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_.Enter());
    return context_.Call(context_.driver().StreamSynchronize, stream_);
  }
  void* stream() override { return stream_; }

 private:
  GpuContext& context_;
  const CUstream stream_;
};

}  // namespace

Status EnqueueUpload(GpuContext& context, CUstream stream, void* device,
                     const void* host, Bytes size) {
  if (size <= Bytes()) return {};
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context.Enter());
  return context.Call(context.driver().MemcpyHtoDAsync,
                      reinterpret_cast<CUdeviceptr>(device), host,
                      static_cast<std::size_t>(size.count()), stream);
}

Status EnqueueDownload(GpuContext& context, CUstream stream, void* host,
                       const void* device, Bytes size) {
  if (size <= Bytes()) return {};
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context.Enter());
  return context.Call(context.driver().MemcpyDtoHAsync, host,
                      reinterpret_cast<CUdeviceptr>(device),
                      static_cast<std::size_t>(size.count()), stream);
}

Result<std::unique_ptr<CopyQueue>> CreateCopyQueue(GpuContext& context) {
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context.Enter());
  CUstream stream = nullptr;
  UCUDNN_RETURN_IF_ERROR(context.Call(context.driver().StreamCreate, &stream,
                                      CU_STREAM_NON_BLOCKING));
  return std::make_unique<DriverCopyQueue>(context, stream);
}

}  // namespace ucudnn::cudnn
