#ifndef UCUDNN_BASE_FILES_FILE_H_
#define UCUDNN_BASE_FILES_FILE_H_

// Whole files in memory.

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// The contents of the file, pipe or device `path`; decompressed if it is gzip
// (detected by its first bytes, whatever its name). kNotFound if it cannot be
// opened or is a directory, kDataLoss if it cannot be read to its end or the
// compressed data is broken, kResourceExhausted if there is more than
// `max_size`, after decompression. Every message names the path. Needs up to
// three times the contents in memory.
Result<std::string> ReadFile(const std::string& path, Bytes max_size);

// Marks errors in a file that a request names as errors of the request: a
// missing, oversized, broken or unsupported file becomes kInvalidArgument,
// since the original codes would mean something else as a service's answer.
template <class T>
Result<T> OfInput(Result<T> read) {
  if (!read && (read.error().code == Code::kNotFound ||
                read.error().code == Code::kResourceExhausted ||
                read.error().code == Code::kDataLoss ||
                read.error().code == Code::kUnimplemented)) {
    read.error().code = Code::kInvalidArgument;
  }
  return read;
}

// Atomically replaces the file `path` with `contents`, creating its folder if
// necessary. Readers see the old file or the new one, even after a crash;
// concurrent writers never mix. kUnknown with the system's reason if writing
// fails; the old file is then untouched.
// `mode` is the new file's, less the umask. Devices and pipes are written to.
Status ReplaceFile(const std::string& path, std::string_view contents,
                   int mode = 0644);

// Before work whose result ReplaceFile will write to `path`: fails if it could
// not, and removes what killed processes of this machine left beside it more
// than an hour ago.
Status PrepareToReplace(const std::string& path);

// A file that holds a secret, such as a key, of at most 64 KiB. kNotFound;
// kInvalidArgument if everybody may read it, or others than its owner may write
// it.
Result<std::string> ReadSecret(const std::string& path);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_FILES_FILE_H_
