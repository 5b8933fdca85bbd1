#ifndef UCUDNN_BASE_DEVICE_KIND_H_
#define UCUDNN_BASE_DEVICE_KIND_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// The properties that make measurements interchangeable between devices.
struct DeviceKind {
  std::string model;       // "NVIDIA H200", "AMD EPYC 9655 avx512_core"
  std::int64_t units = 0;  // SMs of a GPU or its slice; threads of a CPU
  Bytes memory;            // rounded down to a whole GiB
  std::string library;     // "cudnn-9.19", "onednn-2.6": major.minor

  friend bool operator==(const DeviceKind&, const DeviceKind&) = default;
};

// The kind's canonical text form, its key everywhere:
//   "NVIDIA H200/132u/139GiB/cudnn-9.19"
std::string ToString(const DeviceKind& kind);
// Reads back exactly what ToString writes; kInvalidArgument for anything else.
Result<DeviceKind> ParseDeviceKind(std::string_view text);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_DEVICE_KIND_H_
