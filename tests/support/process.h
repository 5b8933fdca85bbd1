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

// Until `condition` holds, looking every few milliseconds; false if it still
// does not after `limit`.
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
  // Output goes to `log`, appended, or is thrown away if it is empty.
  Process(const std::vector<std::string>& command, const std::string& log,
          const std::map<std::string, std::string>& environment = {});
  Process(Process&& other) noexcept { *this = std::move(other); }
  Process& operator=(Process&& other) noexcept;
  ~Process();

  bool running();
  // Of the processor, while it runs.
  std::chrono::milliseconds CpuTime() const;
  void Signal(int signal) const;
  // kill -9, and wait for the end of it.
  void Kill();
  // SIGTERM; the exit status, or -1 if it had to be killed after `limit`.
  int Stop(std::chrono::seconds limit = std::chrono::seconds(30));
  // Waits for its end; the exit status, or -1 if it had to be killed.
  int Wait(std::chrono::seconds limit = std::chrono::seconds(120));

 private:
  pid_t pid_ = -1;
  int status_ = 0;
};

// What a program that ended by itself wrote and returned.
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
