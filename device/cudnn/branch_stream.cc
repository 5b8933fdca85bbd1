#include "device/cudnn/branch_stream.h"

namespace ucudnn::cudnn {

Result<std::unique_ptr<BranchStream>> BranchStream::Create(CudnnHandle& trunk) {
  UCUDNN_ASSIGN_OR_RETURN(const DriverApi* driver, trunk.driver());
  if (driver->StreamWaitEvent == nullptr) {
    return Fail(Code::kUnimplemented, "the driver has no cuStreamWaitEvent");
  }
  std::unique_ptr<BranchStream> branch(new BranchStream(trunk, *driver));
  UCUDNN_RETURN_IF_ERROR(branch->Open());
  return branch;
}

Status BranchStream::Open() {
  UCUDNN_ASSIGN_OR_RETURN(const CUstream trunk, trunk_.stream());
  CUgreenCtx const green = GreenContextOf(driver_, trunk);
  if (green != nullptr && driver_.GreenCtxStreamCreate != nullptr) {
    UCUDNN_RETURN_IF_ERROR(trunk_.Call(driver_.GreenCtxStreamCreate, &stream_,
                                       green, CU_STREAM_NON_BLOCKING, 0));
  } else {
    UCUDNN_RETURN_IF_ERROR(
        trunk_.Call(driver_.StreamCreate, &stream_, CU_STREAM_NON_BLOCKING));
  }
  for (CUevent* event : {&fork_, &join_}) {
    UCUDNN_RETURN_IF_ERROR(
        trunk_.Call(driver_.EventCreate, event, CU_EVENT_DISABLE_TIMING));
  }
  const CudnnApi& api = trunk_.api();
  UCUDNN_RETURN_IF_ERROR(trunk_.Call(api.Create, &cudnn_));
  UCUDNN_RETURN_IF_ERROR(trunk_.Call(api.SetStream, cudnn_, stream_));
  handle_ = CudnnHandle::Wrap(api, cudnn_, &driver_);
  return {};
}

BranchStream::~BranchStream() {
  handle_.reset();
  if (cudnn_ != nullptr) (void)trunk_.api().Destroy(cudnn_);
  for (CUevent event : {fork_, join_}) {
    if (event != nullptr) (void)driver_.EventDestroy(event);
  }
  if (stream_ != nullptr) (void)driver_.StreamDestroy(stream_);
}

Status BranchStream::Order(CUevent event, CUstream before, CUstream after) {
  UCUDNN_RETURN_IF_ERROR(trunk_.Call(driver_.EventRecord, event, before));
  return trunk_.Call(driver_.StreamWaitEvent, after, event, 0);
}

Status BranchStream::Fork() {
  UCUDNN_ASSIGN_OR_RETURN(const CUstream trunk, trunk_.stream());
  return Order(fork_, trunk, stream_);
}

Status BranchStream::Join() {
  UCUDNN_ASSIGN_OR_RETURN(const CUstream trunk, trunk_.stream());
  return Order(join_, stream_, trunk);
}

}  // namespace ucudnn::cudnn
