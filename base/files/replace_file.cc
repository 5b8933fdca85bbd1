#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/files/file.h"
#include "base/service/host.h"

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

}  // namespace

Status ReplaceFile(const std::string& name, std::string_view contents,
                   int mode) {
  std::error_code unknown;
  if (const fs::file_status there = fs::status(name, unknown);
      fs::is_other(there)) {
    return WriteAll(name, contents, 0, 0);
  }
  const std::string path = BehindLinks(name);
  // Makes the temporary name unique, together with host and process: the disk
  // may be shared.
  static std::atomic<int> counter = 0;
  const fs::path target(path);
  const fs::path folder =
      target.has_parent_path() ? target.parent_path() : fs::path(".");
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    return Fail(Code::kUnknown, "{} cannot be created: {}", folder.string(),
                failed.message());
  }
  const std::string temporary =
      fmt::format("{}.{}.{}.{}", path, HostName(), getpid(), counter++);
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
