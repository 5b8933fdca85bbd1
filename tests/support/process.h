#ifndef UCUDNN_TESTS_SUPPORT_PROCESS_H_
#define UCUDNN_TESTS_SUPPORT_PROCESS_H_

// Programs of ours as child processes of a test, and waiting for conditions.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ucudnn::test {

// Polls every few milliseconds until `condition` holds; false if it does not
// within `limit`.
bool WaitUntil(const std::function<bool()>& condition,
               std::chrono::seconds limit = std::chrono::seconds(60));

// A folder that is removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }

 private:
  std::string path_;
};

// A running child, in a process group of its own; killed on destruction.
class Process {
 public:
  Process() = default;
  // Appends output to `log`, or discards it if that is empty.
  Process(const std::vector<std::string>& command, const std::string& log,
          const std::map<std::string, std::string>& environment = {});
  Process(Process&& other) noexcept { *this = std::move(other); }
  Process& operator=(Process&& other) noexcept;
  ~Process();

  bool running();
  pid_t pid() const { return pid_; }
  // Its CPU time, while it runs.
  std::chrono::milliseconds CpuTime() const;
  // The most memory it had at once, in kB; 0 once it has ended.
  long PeakMemoryKb() const { return FromStatus("VmHWM:"); }
  // The same of now.
  long MemoryKb() const { return FromStatus("VmRSS:"); }
  // How many threads it has now.
  long Threads() const { return FromStatus("Threads:"); }
  void Signal(int signal) const;
  // Sends SIGKILL and waits for the end.
  void Kill();
  // Sends SIGTERM; returns the exit status, or -1 if it had to be killed after
  // `limit`.
  int Stop(std::chrono::seconds limit = std::chrono::seconds(30));
  // Waits for its end; the exit status, or -1 if it had to be killed.
  int Wait(std::chrono::seconds limit = std::chrono::seconds(120));

 private:
  // A number of /proc/PID/status.
  long FromStatus(const std::string& key) const;

  pid_t pid_ = -1;
  int status_ = 0;
};

// The output and exit status of a program that ended by itself.
struct Finished {
  int status = -1;
  std::string out;
  std::string err;
};

Finished Run(const std::vector<std::string>& command,
             const std::map<std::string, std::string>& environment = {},
             std::chrono::seconds limit = std::chrono::seconds(120));

// The whole file; empty if there is none.
std::string FileText(const std::string& path);

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_PROCESS_H_
