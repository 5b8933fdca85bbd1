#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/files/file.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {
namespace {

// A file in memory.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view contents)
      : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    UCUDNN_CHECK(descriptor_ >= 0);
    UCUDNN_CHECK(write(descriptor_, contents.data(), contents.size()) ==
                 static_cast<ssize_t>(contents.size()));
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const {
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }

 private:
  int descriptor_;
};

}  // namespace

// What is not gzip is read as it is; what is, never beyond the limit.
UCUDNN_FUZZ(file, text) {
  constexpr Bytes kLimit = 1_MiB;
  const MemoryFile file(text);
  const auto contents = ReadFile(file.path(), kLimit);
  if (!contents) return CheckError(contents.error());
  UCUDNN_CHECK(contents->size() <= static_cast<std::size_t>(kLimit.count()));
  UCUDNN_CHECK(text.substr(0, 2) == "\x1F\x8B" || *contents == text);
}

}  // namespace ucudnn
