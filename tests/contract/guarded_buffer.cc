#include "tests/contract/guarded_buffer.h"

#include <algorithm>
#include <utility>

namespace ucudnn::test {

Result<GuardedBuffer> GuardedBuffer::Make(Device& device, Bytes size,
                                          unsigned char content) {
  GuardedBuffer result;
  result.device_ = &device;
  result.size_ = size;
  const Bytes whole = size + kGuard * 2;
  UCUDNN_ASSIGN_OR_RETURN(result.buffer_, device.Allocate(whole));
  UCUDNN_RETURN_IF_ERROR(device.Fill(result.buffer_.data(), kGuardByte, whole));
  UCUDNN_RETURN_IF_ERROR(device.Fill(result.data(), content, size));
  UCUDNN_RETURN_IF_ERROR(device.Synchronize());
  return result;
}

Result<GuardedBuffer> GuardedBuffer::Holding(
    Device& device, const std::vector<unsigned char>& content) {
  const Bytes size(static_cast<std::int64_t>(content.size()));
  UCUDNN_ASSIGN_OR_RETURN(GuardedBuffer result, Make(device, size, 0));
  UCUDNN_RETURN_IF_ERROR(device.Upload(result.data(), content.data(), size));
  return result;
}

Result<std::vector<unsigned char>> GuardedBuffer::Read() const {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(size_.count()));
  UCUDNN_RETURN_IF_ERROR(device_->Synchronize());
  UCUDNN_RETURN_IF_ERROR(device_->Download(bytes.data(), data(), size_));
  return bytes;
}

Result<std::int64_t> GuardedBuffer::BrokenGuardBytes() const {
  UCUDNN_RETURN_IF_ERROR(device_->Synchronize());
  std::vector<unsigned char> guard(std::size_t(kGuard.count()));
  std::int64_t broken = 0;
  for (const Bytes offset : {Bytes(), kGuard + size_}) {
    UCUDNN_RETURN_IF_ERROR(device_->Download(guard.data(), At(offset), kGuard));
    broken += std::count_if(guard.begin(), guard.end(),
                            [](unsigned char c) { return c != kGuardByte; });
  }
  return broken;
}

}  // namespace ucudnn::test
