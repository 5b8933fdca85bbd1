#ifndef UCUDNN_BASE_DEVICE_CLOCKS_H_
#define UCUDNN_BASE_DEVICE_CLOCKS_H_

#include <cstdint>
#include <string>

namespace ucudnn {

// How a device was while something was measured; 0 and empty where it is not
// known.
struct DeviceClocks {
  std::int64_t sm_mhz = 0;
  std::int64_t memory_mhz = 0;
  std::string throttle;  // what slowed it, for people

  friend bool operator==(const DeviceClocks&, const DeviceClocks&) = default;
};

}  // namespace ucudnn

#endif  // UCUDNN_BASE_DEVICE_CLOCKS_H_
