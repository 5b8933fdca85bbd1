#include "base/service/host.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <ctime>
#include <fstream>

namespace ucudnn {

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') {
    return "unknown";
  }
  return name.data();
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
  // "cpu  user nice system idle iowait irq softirq steal ..." in ticks
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
