#include "coordinator/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "coordinator/metric_families.h"

namespace ucudnn {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_usec) / 1e6;
}

// The number of a line "name 123 ..." of a file of /proc; negative if there is
// none.
double NumberIn(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  double value = -1;
  while (file >> word) {
    if (word == name && file >> value) return value;
    file.ignore(1 << 16, '\n');
  }
  return -1;
}

// When this process started, as Unix seconds; negative if unknown.
double StartTime() {
  constexpr int kStartField = 22;
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)),
                   std::istreambuf_iterator<char>());
  // The second field, the name in parentheses, may hold anything.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return -1;
  text = text.substr(name_end + 1);
  std::size_t at = 0;
  for (int field = 2; field < kStartField; ++field) {
    at = text.find(' ', at);
    if (at == std::string::npos) return -1;
    ++at;
  }
  const double booted = NumberIn("/proc/stat", "btime");
  if (booted < 0) return -1;
  return booted +
         std::stod(text.substr(at)) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

std::vector<MetricFamily> ProcessMetrics() {
  std::vector<MetricFamily> families;
  rusage used{};
  if (getrusage(RUSAGE_SELF, &used) == 0) {
    families.push_back(Single(
        "process_cpu_seconds_total", "CPU time, of the user and the system",
        MetricType::Counter, Seconds(used.ru_utime) + Seconds(used.ru_stime)));
  }
  if (const double kib = NumberIn("/proc/self/status", "VmRSS:"); kib >= 0) {
    families.push_back(Single("process_resident_memory_bytes", "Memory in use",
                              MetricType::Gauge, kib * 1024));
  }
  if (const double threads = NumberIn("/proc/self/status", "Threads:");
      threads >= 0) {
    families.push_back(
        Single("process_threads", "Threads", MetricType::Gauge, threads));
  }
  std::error_code failed;
  const std::filesystem::directory_iterator entries("/proc/self/fd", failed);
  if (!failed) {
    // One is that of the folder.
    families.push_back(Single(
        "process_open_fds", "Open file descriptors", MetricType::Gauge,
        static_cast<double>(std::distance(begin(entries), end(entries)) - 1)));
  }
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    families.push_back(
        Single("process_max_fds", "How many file descriptors may be open",
               MetricType::Gauge, static_cast<double>(files.rlim_cur)));
  }
  static const double started = StartTime();
  if (started >= 0) {
    families.push_back(Single("process_start_time_seconds",
                              "When the process started, in Unix time",
                              MetricType::Gauge, started));
  }
  return families;
}

}  // namespace ucudnn
