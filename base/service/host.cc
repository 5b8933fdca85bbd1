#include "base/service/host.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

namespace ucudnn {

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') {
    return "unknown";
  }
  return name.data();
}

bool HostLoad::Busy() const {
  // The load of an agent that just measured on all cores decays only slowly, so
  // one process per core is not busy yet.
  constexpr double kMostPerCore = 1.5;
  return load > kMostPerCore * cores;
}

HostLoad ReadHostLoad() {
  HostLoad host{.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))};
  getloadavg(&host.load, 1);
  return host;
}

}  // namespace ucudnn
