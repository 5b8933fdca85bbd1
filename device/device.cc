#include "device/device.h"

#include <utility>

namespace ucudnn {

std::string ToString(const DeviceKind& kind) {
  return fmt::format("{}/{}u/{}/{}", kind.model, kind.units,
                     FormatBytes(kind.memory), kind.library);
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this != &other) {
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, Bytes());
    free_ = std::exchange(other.free_, nullptr);
  }
  return *this;
}

void DeviceBuffer::Reset() {
  if (data_ != nullptr && free_) free_(data_);
  data_ = nullptr;
  size_ = Bytes();
}

}  // namespace ucudnn
