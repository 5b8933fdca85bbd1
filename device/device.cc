#include "device/device.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "device/host_copy_queue.h"
#include "device/host_event.h"
#include "device/host_memory.h"

namespace ucudnn {

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this != &other) {
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, Bytes());
    free_ = std::exchange(other.free_, nullptr);
  }
  return *this;
}

Result<DeviceBuffer> Device::AllocateHost(Bytes size) {
  return AllocateHostMemory(size);
}

Result<std::unique_ptr<CapturedWork>> Device::CaptureParts(
    std::span<const CapturePart> /*parts*/,
    std::unique_ptr<CapturedWork> /*replaced*/) {
  return Fail(Code::kUnimplemented, "{} cannot capture work", info().id);
}

Result<std::unique_ptr<Event>> Device::MakeEvent() {
  return std::make_unique<HostEvent>(*this);
}

Status Device::WaitFor(Event& event) {
  auto* const ours = dynamic_cast<HostEvent*>(&event);
  if (ours == nullptr) {
    return Fail(Code::kInvalidArgument, "the event is not one of {}",
                info().id);
  }
  ours->Await(ours->Announced());
  return {};
}

Result<std::unique_ptr<CopyQueue>> Device::MakeCopyQueue() {
  return std::make_unique<HostCopyQueue>();
}

Status Device::Scale(float* device, std::int64_t count, float factor) {
  for (std::int64_t i = 0; i < count; ++i) device[i] *= factor;
  return {};
}

void DeviceBuffer::Reset() {
  if (data_ != nullptr && free_) free_(data_);
  data_ = nullptr;
  size_ = Bytes();
}

Status UploadRepeated(Device& device, const DeviceBuffer& buffer,
                      std::span<const char> pattern) {
  const std::int64_t length = std::ssize(pattern);
  for (std::int64_t at = 0; at < buffer.size().count(); at += length) {
    UCUDNN_RETURN_IF_ERROR(
        device.Upload(static_cast<char*>(buffer.data()) + at, pattern.data(),
                      Bytes(std::min(length, buffer.size().count() - at))));
  }
  return {};
}

std::vector<Result<std::vector<Candidate>>> Device::ListAlgorithmsOfEach(
    const ConvProblem& problem, std::span<const BatchSize> batches) {
  std::vector<Result<std::vector<Candidate>>> lists;
  lists.reserve(batches.size());
  for (const BatchSize batch : batches) {
    lists.push_back(ListAlgorithms(problem, batch));
  }
  return lists;
}

}  // namespace ucudnn
