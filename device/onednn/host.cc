#include "device/onednn/host.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string_view>

namespace ucudnn::onednn {
namespace {

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// The value of the first line "key : value" of a file below /proc.
std::string ProcValue(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string_view view = line;
    if (Trimmed(view.substr(0, colon)) != key) continue;
    return std::string(Trimmed(view.substr(colon + 1)));
  }
  return {};
}

}  // namespace

std::string CpuModel() {
  std::string model = ProcValue("/proc/cpuinfo", "model name");
  utsname name{};
  if (model.empty() && uname(&name) == 0) model = name.machine;
  return model;
}

std::string Kernel() {
  utsname name{};
  if (uname(&name) != 0) return {};
  return fmt::format("{} {}", name.sysname, name.release);
}

Bytes LastLevelCache() {
  // The C library's number counts a cache of some processors once a core.
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  std::int64_t kib = 0;
  char unit = 0;
  if (file >> kib >> unit && unit == 'K') return Bytes(kib) * 1024;
  // -1 if the system has no such number, 0 if it does not know it.
  return Bytes(std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), 0L));
}

}  // namespace ucudnn::onednn
