#ifndef UCUDNN_BASE_FILE_H_
#define UCUDNN_BASE_FILE_H_

// Whole files in memory.

#include <string>

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

}  // namespace ucudnn

#endif  // UCUDNN_BASE_FILE_H_
