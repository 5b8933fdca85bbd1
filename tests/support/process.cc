#include "tests/support/process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace ucudnn::test {
namespace {

// In the child: redirects, sets the environment and becomes the program.
[[noreturn]] void Become(
    const std::vector<std::string>& command, int out, int err,
    const std::map<std::string, std::string>& environment) {
  setpgid(0, 0);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const auto& [name, value] : environment) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

int OpenForAppend(const std::string& path) {
  return open(path.empty() ? "/dev/null" : path.c_str(),
              O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

}  // namespace

bool WaitUntil(const std::function<bool()>& condition,
               std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "ucudnn-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error("cannot make a temporary folder");
  }
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Process::Process(const std::vector<std::string>& command,
                 const std::string& log,
                 const std::map<std::string, std::string>& environment) {
  const int output = OpenForAppend(log);
  pid_ = fork();
  if (pid_ == 0) Become(command, output, output, environment);
  setpgid(pid_, pid_);
  close(output);
}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    Kill();
    pid_ = std::exchange(other.pid_, -1);
    status_ = other.status_;
  }
  return *this;
}

Process::~Process() { Kill(); }

bool Process::running() {
  if (pid_ < 0) return false;
  if (waitpid(pid_, &status_, WNOHANG) == pid_) {
    // Its own children must not outlive it.
    kill(-pid_, SIGKILL);
    pid_ = -1;
    return false;
  }
  return true;
}

std::chrono::milliseconds Process::CpuTime() const {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid_, &clock) != 0 ||
      clock_gettime(clock, &time) != 0) {
    return {};
  }
  return std::chrono::milliseconds(time.tv_sec * 1000 +
                                   time.tv_nsec / 1'000'000);
}

long Process::FromStatus(const std::string& key) const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stol(line.substr(key.size()));
  }
  return 0;
}

void Process::Signal(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

void Process::Kill() {
  if (pid_ < 0) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, &status_, 0);
  pid_ = -1;
}

int Process::Stop(std::chrono::seconds limit) {
  Signal(SIGTERM);
  return Wait(limit);
}

int Process::Wait(std::chrono::seconds limit) {
  if (!WaitUntil([this] { return !running(); }, limit)) {
    Kill();
    return -1;
  }
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

Finished Run(const std::vector<std::string>& command,
             const std::map<std::string, std::string>& environment,
             std::chrono::seconds limit) {
  const TemporaryFolder folder;
  const int out = OpenForAppend(folder / "out");
  const int err = OpenForAppend(folder / "err");
  const pid_t pid = fork();
  if (pid == 0) Become(command, out, err, environment);
  setpgid(pid, pid);
  close(out);
  close(err);
  int status = 0;
  Finished finished;
  if (WaitUntil([&] { return waitpid(pid, &status, WNOHANG) == pid; }, limit)) {
    finished.status =
        WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  } else {
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
  }
  finished.out = FileText(folder / "out");
  finished.err = FileText(folder / "err");
  return finished;
}

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace ucudnn::test
