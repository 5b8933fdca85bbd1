#ifndef UCUDNN_TESTS_CONTRACT_GUARDED_BUFFER_H_
#define UCUDNN_TESTS_CONTRACT_GUARDED_BUFFER_H_

// Device memory between two guard areas, which reveal writes outside it.

#include <vector>

#include "device/device.h"

namespace ucudnn::test {

class GuardedBuffer {
 public:
  // `size` usable bytes, all set to `content`, at a multiple of 256 bytes into
  // the allocation, so that they keep its alignment.
  static Result<GuardedBuffer> Make(Device& device, Bytes size,
                                    unsigned char content);
  // A buffer that holds these bytes.
  static Result<GuardedBuffer> Holding(
      Device& device, const std::vector<unsigned char>& content);

  void* data() const { return At(kGuard); }
  void* At(Bytes offset) const {
    return static_cast<unsigned char*>(buffer_.data()) + offset.count();
  }
  Bytes size() const { return size_; }

  Result<std::vector<unsigned char>> Read() const;
  // How many bytes of the guards have changed.
  Result<std::int64_t> BrokenGuardBytes() const;

 private:
  static constexpr Bytes kGuard{4096};
  static constexpr unsigned char kGuardByte = 0xa5;

  Device* device_ = nullptr;
  DeviceBuffer buffer_;
  Bytes size_;
};

// 0xff in every byte is a NaN in every precision.
inline constexpr unsigned char kNanByte = 0xff;

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_CONTRACT_GUARDED_BUFFER_H_
