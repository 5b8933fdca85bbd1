#include "base/service/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <ctime>
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

HostLoad HostWatch::Load() const {
  const Used now = Now();
  const double seconds = now.seconds - since_.seconds;
  HostLoad host{.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN))};
  // The system counts in ticks of 10 ms.
  constexpr double kLeastSeconds = 0.2;
  if (seconds < kLeastSeconds) return host;
  host.load = (now.all - since_.all) / seconds;
  host.own = (now.own - since_.own) / seconds;
  return host;
}

HostWatch::Used HostWatch::Now() {
  using Seconds = std::chrono::duration<double>;
  Used used{
      .seconds = Seconds(std::chrono::steady_clock::now().time_since_epoch())
                     .count(),
      .all = 0,
      .own = static_cast<double>(std::clock()) / CLOCKS_PER_SEC};
  // The first line sums all processors, in clock ticks since the start:
  // "cpu  user nice system idle iowait irq softirq steal ...".
  std::ifstream file("/proc/stat");
  std::string word;
  file >> word;
  double ticks = 0;
  for (int i = 0; i < 8 && file >> ticks; ++i) {
    if (i != 3 && i != 4) used.all += ticks;
  }
  used.all /= static_cast<double>(sysconf(_SC_CLK_TCK));
  return used;
}

}  // namespace ucudnn
