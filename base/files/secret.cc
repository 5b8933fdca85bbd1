#include <sys/stat.h>

#include "base/files/file.h"

namespace ucudnn {

Result<std::string> ReadSecret(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(std::string text, ReadFile(path, 64_KiB));
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    return Fail(Code::kNotFound, "{} is not there any more", path);
  }
  constexpr unsigned kTooMuch = 0027;
  const unsigned mode = status.st_mode & 0777U;
  if (S_ISREG(status.st_mode) && (mode & kTooMuch) != 0) {
    return Fail(Code::kInvalidArgument,
                "{} holds a secret, but its mode is {:04o}; 0600 and 0640 are "
                "accepted (chmod 600 {}, or 640 if its group reads it)",
                path, mode, path);
  }
  return text;
}

}  // namespace ucudnn
