#include "base/service/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <thread>
#include <utility>

#include "base/service/cgroup.h"

namespace ucudnn {

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') {
    return "unknown";
  }
  return name.data();
}

std::string MachineId() {
  // The whole of it is not to leave the machine (machine-id(5)).
  constexpr std::size_t kEnough = 12;
  for (const char* path :
       {"/etc/machine-id", "/proc/sys/kernel/random/boot_id"}) {
    std::ifstream file(path);
    std::string id;
    if (file >> id && id != "uninitialized") return id.substr(0, kEnough);
  }
  return {};
}

bool SameHost(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  const auto lower = [](unsigned char c) { return std::tolower(c); };
  return !a.empty() &&
         std::ranges::equal(a, b.substr(0, a.size()), {}, lower, lower) &&
         (a.size() == b.size() || b[a.size()] == '.');
}

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // The call fails if there are more cores than the set can hold.
  const int cores =
      sched_getaffinity(0, sizeof(set), &set) == 0
          ? CPU_COUNT(&set)
          : static_cast<int>(std::thread::hardware_concurrency());
  const std::optional<double> quota = ReadCgroupLimits().cpus;
  const int most = quota ? static_cast<int>(std::min(*quota, 1e6)) : cores;
  return std::max(1, std::min(cores, most));
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
