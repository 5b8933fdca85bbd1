#ifndef UCUDNN_BASE_FILES_FILE_H_
#define UCUDNN_BASE_FILES_FILE_H_

// Whole files in memory.

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// The contents of the file, pipe or device `path`; decompressed if it is gzip
// (told by its first bytes, whatever its name). kNotFound if it cannot be
// opened or is a directory, kDataLoss if it cannot be read to its end or the
// compressed data is broken, kResourceExhausted if there is more than
// `max_size`, after decompression. Every message names the path. Needs up to
// three times the contents in memory.
Result<std::string> ReadFile(const std::string& path, Bytes max_size);

// What was read from a file that a request names. That the file is not there,
// too long or broken, or holds what is not supported, is a fault of the
// request: kInvalidArgument, where a service that answers so would mean
// something else.
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

// Creates the folder if need be, and replaces the file `path` by `contents` in
// one step: whoever reads it, after a crash too, sees the old file or the new
// one, and of several writers one has written it whole. kUnknown with the
// system's reason if it cannot be written; the old file is then untouched.
Status ReplaceFile(const std::string& path, std::string_view contents);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_FILES_FILE_H_
