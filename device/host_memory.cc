#include "device/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/service/cgroup.h"

namespace ucudnn {

Bytes TotalHostMemory() {
  return Bytes(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

Bytes AvailableHostMemory() {
  Bytes free = TotalHostMemory();
  std::ifstream file("/proc/meminfo");
  std::string key;
  for (std::int64_t kib = 0; file >> key >> kib; file.ignore(64, '\n')) {
    if (key == "MemAvailable:") free = Bytes(kib) * 1024;
  }
  return std::min(free, ReadCgroupLimits().memory.value_or(free));
}

Result<DeviceBuffer> AllocateHostMemory(Bytes size) {
  if (size < Bytes()) {
    return Fail(Code::kInvalidArgument, "cannot allocate {} bytes",
                size.count());
  }
  constexpr std::size_t kAlignment = 256;
  // Too small to be worth a query to the system.
  constexpr Bytes kSmall = 16_MiB;
  const Bytes available = size <= kSmall ? kSmall : AvailableHostMemory();
  void* memory = nullptr;
  if (size <= available) {
    const std::size_t units =
        (static_cast<std::size_t>(size.count()) + kAlignment - 1) / kAlignment;
    memory = std::aligned_alloc(kAlignment,
                                std::max<std::size_t>(units, 1) * kAlignment);
  }
  if (memory == nullptr) {
    return Fail(Code::kResourceExhausted, "{} bytes requested, {} available",
                size.count(), AvailableHostMemory().count());
  }
  return DeviceBuffer(memory, size, [](void* p) { std::free(p); });
}

}  // namespace ucudnn
