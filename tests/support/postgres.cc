#include "tests/support/postgres.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace ucudnn {
namespace {

namespace fs = std::filesystem;

constexpr auto kPatience = std::chrono::seconds(30);
constexpr auto kPoll = std::chrono::milliseconds(2);

// The programs of the newest installed version, or those of a folder that is
// named.
Result<std::string> FindPrograms() {
  if (const char* named = std::getenv("UCUDNN_POSTGRES_BIN")) return named;
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& version :
       fs::directory_iterator("/usr/lib/postgresql", ignored)) {
    const fs::path programs = version.path() / "bin";
    if (fs::exists(programs / "initdb", ignored)) found.push_back(programs);
  }
  if (found.empty()) {
    return Fail(Code::kNotFound,
                "PostgreSQL's server is not installed (package postgresql)");
  }
  return *std::ranges::max_element(found);
}

std::string Contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Polls until `done`: the server reports its state only in files.
template <class Done>
bool WaitUntil(const Done& done) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

// Stops a child of this process, and waits until it stands: until then it may
// create processes that nobody sees.
void Stop(pid_t child) {
  kill(child, SIGSTOP);
  waitpid(child, nullptr, WUNTRACED);
}

// All processes whose parent is `parent`.
std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", parent));
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

}  // namespace

Result<std::unique_ptr<ThrowawayPostgres>> ThrowawayPostgres::Start(Disk disk) {
  UCUDNN_ASSIGN_OR_RETURN(std::string programs, FindPrograms());
  std::string folder =
      (fs::temp_directory_path() / "ucudnn-postgres-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    return Fail(Code::kUnavailable, "cannot make the folder {}", folder);
  }
  auto postgres = std::unique_ptr<ThrowawayPostgres>(
      new ThrowawayPostgres(std::move(programs), folder));
  if (geteuid() == 0) {
    const passwd* nobody = getpwnam("nobody");
    if (nobody == nullptr ||
        chown(folder.c_str(), nobody->pw_uid, nobody->pw_gid) != 0) {
      return Fail(Code::kUnavailable, "cannot give {} to nobody", folder);
    }
  }
  UCUDNN_RETURN_IF_ERROR(postgres->RunToEnd(
      {"initdb", "-D", folder + "/d", "-A", "trust", "-U", "ucudnn", "-N",
       "--no-locale", "-E", "UTF8", "--no-instructions"}));
  std::ofstream(folder + "/d/postgresql.conf", std::ios::app)
      << "listen_addresses = ''\n"
      << "unix_socket_directories = '" << folder << "'\n"
      << "max_connections = 100\n"
      << "client_min_messages = warning\n"
      << "fsync = " << (disk == Disk::kDurable ? "on" : "off") << "\n";
  UCUDNN_RETURN_IF_ERROR(postgres->Serve());
  return postgres;
}

ThrowawayPostgres::~ThrowawayPostgres() {
  if (server_ > 0) {
    Thaw();
    kill(server_, SIGQUIT);
    waitpid(server_, nullptr, 0);
  }
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::string ThrowawayPostgres::UrlOf(const std::string& database) const {
  return fmt::format("postgresql://ucudnn@/{}?host={}", database, folder_);
}

std::string ThrowawayPostgres::Log() const {
  return Contents(folder_ + "/log");
}

Result<pid_t> ThrowawayPostgres::Spawn(
    const std::vector<std::string>& arguments) const {
  const std::string program = programs_ + "/" + arguments.front();
  const std::string log = folder_ + "/log";
  const std::string home = "HOME=" + folder_;
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.front() = const_cast<char*>(program.c_str());
  argv.push_back(nullptr);
  char path[] = "PATH=/usr/bin:/bin";
  char* const environment[] = {const_cast<char*>(home.c_str()), path, nullptr};
  const passwd* nobody = geteuid() == 0 ? getpwnam("nobody") : nullptr;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return Fail(Code::kResourceExhausted, "cannot fork");
  if (child > 0) return child;
  // Between fork and exec: only system calls.
  if (nobody != nullptr &&
      (setgroups(0, nullptr) != 0 || setgid(nobody->pw_gid) != 0 ||
       setuid(nobody->pw_uid) != 0)) {
    _exit(126);
  }
  prctl(PR_SET_PDEATHSIG, SIGQUIT);
  if (getppid() != parent) _exit(125);
  setpgid(0, 0);  // only the test gets a terminal's ^C
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  close_range(3, ~0U, 0);
  if (chdir(folder_.c_str()) != 0) _exit(124);
  execve(program.c_str(), argv.data(), environment);
  _exit(127);
}

Status ThrowawayPostgres::RunToEnd(
    const std::vector<std::string>& arguments) const {
  UCUDNN_ASSIGN_OR_RETURN(const pid_t child, Spawn(arguments));
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Fail(Code::kUnavailable, "{} failed ({}): {}", arguments.front(),
              status, Log());
}

Status ThrowawayPostgres::Serve() {
  UCUDNN_ASSIGN_OR_RETURN(server_, Spawn({"postgres", "-D", folder_ + "/d"}));
  // Its last line is the state, its first the process id.
  const bool ready = WaitUntil([&] {
    const std::string lines = Contents(folder_ + "/d/postmaster.pid");
    return lines.starts_with(fmt::format("{}\n", server_)) &&
           lines.find("\nready") != std::string::npos;
  });
  if (ready) return {};
  return Fail(Code::kUnavailable, "PostgreSQL does not start: {}", Log());
}

Status ThrowawayPostgres::Execute(const std::string& statement) const {
  return RunToEnd(
      {"psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement, url()});
}

Status ThrowawayPostgres::Empty() {
  return Execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
}

Result<std::string> ThrowawayPostgres::CreateDatabase(
    const std::string& options) {
  const std::string name = fmt::format("test{}", ++databases_);
  UCUDNN_RETURN_IF_ERROR(Execute("CREATE DATABASE " + name + " " + options));
  return UrlOf(name);
}

Status ThrowawayPostgres::Crash() {
  UCUDNN_RETURN_IF_ERROR(Kill());
  return Serve();
}

Status ThrowawayPostgres::Kill() {
  // Stopped first, so that it cannot restart children that die.
  Stop(server_);
  const std::vector<pid_t> processes = ChildrenOf(server_);
  for (const pid_t process : processes) kill(process, SIGKILL);
  kill(server_, SIGKILL);
  waitpid(server_, nullptr, 0);
  server_ = -1;
  // They hold the shared memory that the next server needs.
  if (!WaitUntil([&] {
        return std::ranges::none_of(
            processes, [](pid_t process) { return kill(process, 0) == 0; });
      })) {
    return Fail(Code::kUnavailable, "PostgreSQL's processes do not end");
  }
  std::error_code ignored;
  fs::remove(folder_ + "/d/postmaster.pid", ignored);
  return {};
}

void ThrowawayPostgres::Freeze() {
  Stop(server_);
  for (const pid_t process : ChildrenOf(server_)) kill(process, SIGSTOP);
}

void ThrowawayPostgres::Thaw() {
  for (const pid_t process : ChildrenOf(server_)) kill(process, SIGCONT);
  kill(server_, SIGCONT);
}

Status ThrowawayPostgres::EndConnections() {
  return Execute(
      "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
      "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'");
}

}  // namespace ucudnn
