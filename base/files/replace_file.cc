#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/files/file.h"
#include "base/service/host.h"
#include "base/text.h"

namespace ucudnn {
namespace {

namespace fs = std::filesystem;

// A file descriptor, closed on destruction.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  int get() const { return descriptor_; }
  // False if closing fails: delayed write errors surface here.
  bool Close() { return close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

tl::unexpected<Error> SystemFailure(std::string_view what,
                                    const std::string& path) {
  const int reason = errno;
  return Fail(Code::kUnknown, "{} cannot be {}: {}", path, what,
              std::generic_category().message(reason));
}

Status WriteAll(const std::string& path, std::string_view text, int flags,
                mode_t mode) {
  File file(open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, mode));
  if (file.get() < 0) return SystemFailure("created", path);
  while (!text.empty()) {
    const ssize_t n = write(file.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemFailure("written", path);
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  // What is no file cannot be synced.
  if ((fsync(file.get()) != 0 && (flags & O_CREAT) != 0) || !file.Close()) {
    return SystemFailure("written", path);
  }
  return {};
}

// The file that a link leads to, which is replaced instead of the link.
std::string BehindLinks(const std::string& path) {
  std::error_code failed;
  if (!fs::is_symlink(path, failed)) return path;
  const fs::path file = fs::canonical(path, failed);
  return failed ? path : file.string();
}

// Of the folder of a file, which is made if there is none.
Result<fs::path> FolderOf(const std::string& path) {
  const fs::path target(path);
  fs::path folder = target.has_parent_path() ? target.parent_path() : ".";
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!failed) return folder;
  return Fail(Code::kUnknown, "{} cannot be created: {}", folder.string(),
              failed.message());
}

// What is written first; unique together with host and process, since the disk
// may be shared.
std::string TemporaryOf(const std::string& path) {
  static std::atomic<int> counter = 0;
  return fmt::format("{}.{}.{}.{}", path, HostName(), getpid(), counter++);
}

// Whether the file is named as TemporaryOf(path) of a process of this machine
// that has ended. One in another namespace of processes may seem to have, so it
// must also be old.
bool IsAbandoned(const fs::directory_entry& file, const std::string& path) {
  const std::string prefix = fmt::format("{}.{}.", path, HostName());
  const std::string name = file.path().string();
  if (!name.starts_with(prefix)) return false;
  const std::string_view rest = std::string_view(name).substr(prefix.size());
  const std::size_t dot = rest.find('.');
  if (dot == std::string_view::npos) return false;
  const auto process = ParseInteger(rest.substr(0, dot), 1, INT32_MAX);
  if (!process || !ParseInteger(rest.substr(dot + 1), 0, INT32_MAX)) {
    return false;
  }
  std::error_code failed;
  const auto written = file.last_write_time(failed);
  return !failed &&
         fs::file_time_type::clock::now() - written > std::chrono::hours(1) &&
         kill(static_cast<pid_t>(*process), 0) != 0 && errno == ESRCH;
}

}  // namespace

Status PrepareToReplace(const std::string& name) {
  std::error_code failed;
  const fs::file_status there = fs::status(name, failed);
  if (fs::is_other(there)) return {};
  if (fs::is_directory(there)) {
    return Fail(Code::kUnknown, "{} is a folder; a file is expected", name);
  }
  const std::string path = BehindLinks(name);
  UCUDNN_ASSIGN_OR_RETURN(const fs::path folder, FolderOf(path));
  const std::string temporary = TemporaryOf(path);
  UCUDNN_RETURN_IF_ERROR(WriteAll(temporary, "", O_CREAT | O_EXCL, 0600));
  unlink(temporary.c_str());
  const std::string full = (folder / fs::path(path).filename()).string();
  for (fs::directory_iterator file(folder, failed), end; file != end;
       file.increment(failed)) {
    if (IsAbandoned(*file, full)) unlink(file->path().c_str());
  }
  return {};
}

Status ReplaceFile(const std::string& name, std::string_view contents,
                   int mode) {
  std::error_code unknown;
  if (const fs::file_status there = fs::status(name, unknown);
      fs::is_other(there)) {
    return WriteAll(name, contents, 0, 0);
  }
  const std::string path = BehindLinks(name);
  UCUDNN_ASSIGN_OR_RETURN(const fs::path folder, FolderOf(path));
  const std::string temporary = TemporaryOf(path);
  Status written = WriteAll(temporary, contents, O_CREAT | O_EXCL,
                            static_cast<mode_t>(mode));
  if (written && rename(temporary.c_str(), path.c_str()) != 0) {
    written = SystemFailure("written", path);
  }
  if (!written) {
    unlink(temporary.c_str());
    return written;
  }
  // The rename is durable once the folder is synced.
  const File entry(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (entry.get() >= 0) fsync(entry.get());
  return {};
}

}  // namespace ucudnn
