#include "coordinator/store/sqlite_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace ucudnn {
namespace {

// What the holder wrote.
std::string HolderOf(int file) {
  std::array<char, 32> text{};
  const ssize_t size = pread(file, text.data(), text.size(), 0);
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size))
                  : "that has just started";
}

}  // namespace

Result<std::unique_ptr<SqliteLock>> SqliteLock::Take(const std::string& url,
                                                     bool create) {
  constexpr std::string_view kFile = "sqlite:///";
  if (!url.starts_with(kFile)) return nullptr;
  std::error_code failed;
  // Also the same database by another path.
  const std::filesystem::path path =
      std::filesystem::weakly_canonical(url.substr(kFile.size() - 1), failed);
  if (failed) {
    return Fail(Code::kUnavailable, "SQLite, {}: {}", url, failed.message());
  }
  if (!create && !std::filesystem::exists(path, failed)) {
    return Fail(Code::kFailedPrecondition,
                "there is no database {}; correct --database, or give --create "
                "to make a new one",
                path.string());
  }
  const std::string name = path.string() + ".lock";
  const int file = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) {
    return Fail(Code::kUnavailable, "{}: {}", name, std::strerror(errno));
  }
  std::unique_ptr<SqliteLock> lock(new SqliteLock(file));
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    return Fail(Code::kFailedPrecondition,
                "database {} is in use by process {}; a SQLite database serves "
                "one coordinator",
                path.string(), HolderOf(file));
  }
  const std::string holder = std::to_string(getpid());
  if (ftruncate(file, 0) != 0 ||
      pwrite(file, holder.data(), holder.size(), 0) !=
          static_cast<ssize_t>(holder.size())) {
    return Fail(Code::kUnavailable, "{}: {}", name, std::strerror(errno));
  }
  return lock;
}

SqliteLock::~SqliteLock() { close(file_); }

}  // namespace ucudnn
