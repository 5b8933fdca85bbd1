#include "device/cudnn/driver/event.h"

#include <cmath>

namespace ucudnn::cudnn {

Result<std::unique_ptr<DriverEvent>> DriverEvent::Create(GpuContext& context) {
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context.Enter());
  CUevent event = nullptr;
  UCUDNN_RETURN_IF_ERROR(
      context.Call(context.driver().EventCreate, &event, CU_EVENT_DEFAULT));
  return std::unique_ptr<DriverEvent>(new DriverEvent(context, event));
}

DriverEvent::~DriverEvent() {
  const auto scope = context_.Enter();
  if (scope) (void)context_.driver().EventDestroy(event_);
}

Status DriverEvent::SetIn(CUstream stream) {
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_.Enter());
  return context_.Call(context_.driver().EventRecord, event_, stream);
}

Status DriverEvent::WaitIn(CUstream stream) {
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_.Enter());
  if (context_.driver().StreamWaitEvent == nullptr) {
    return Fail(Code::kUnimplemented, "the driver has no cuStreamWaitEvent");
  }
  return context_.Call(context_.driver().StreamWaitEvent, stream, event_, 0);
}

Result<bool> DriverEvent::Reached() {
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_.Enter());
  const CUresult result = context_.driver().EventQuery(event_);
  if (result == CUDA_ERROR_NOT_READY) return false;
  UCUDNN_RETURN_IF_ERROR(context_.Check(result, "cuEventQuery"));
  return true;
}

Result<Nanoseconds> DriverEvent::Since(const Event& start) const {
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_.Enter());
  float milliseconds = 0;
  UCUDNN_RETURN_IF_ERROR(
      context_.Call(context_.driver().EventElapsedTime, &milliseconds,
                    dynamic_cast<const DriverEvent&>(start).event_, event_));
  return Nanoseconds(std::llround(static_cast<double>(milliseconds) * 1e6));
}

Status DriverEvent::Await() {
  UCUDNN_ASSIGN_OR_RETURN(const auto scope, context_.Enter());
  return context_.Call(context_.driver().EventSynchronize, event_);
}

Result<DriverEvent*> DriverEventOf(Event& event) {
  auto* const ours = dynamic_cast<DriverEvent*>(&event);
  if (ours != nullptr) return ours;
  return Fail(Code::kInvalidArgument, "the event is not one of a GPU's");
}

}  // namespace ucudnn::cudnn
