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
  // What an agent did on all cores a moment ago is no work of others.
  constexpr double kMostPerCore = 1.5;
  return load > kMostPerCore * cores;
}

HostLoad ReadHostLoad() {
  HostLoad host{.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))};
  getloadavg(&host.load, 1);
  return host;
}

}  // namespace ucudnn
