#ifndef UCUDNN_BASE_FILES_BUFFERS_H_
#define UCUDNN_BASE_FILES_BUFFERS_H_

// Buffers of known lifetimes: the input of static allocation, which gives each
// an offset in one pool.
//
// The file form is CSV with a header, plain or gzip; columns are found by name
// and unknown ones ignored:
//   id,lower,upper,size
// A buffer of `size` bytes is live from `lower` until just before `upper`. Ids
// are names, each used once.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// Live in [begin, end); never live if they are equal.
struct Buffer {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  Bytes size;

  friend bool operator==(const Buffer&, const Buffer&) = default;
};

struct NamedBuffers {
  std::vector<std::string> ids;  // of each buffer
  std::vector<Buffer> buffers;
};

// Reads the rows in order. `source` names the text in errors, which give the
// line, the column, the value and what is accepted. kInvalidArgument: a column
// is missing or duplicated, a row and the header differ in their number of
// fields, a field does not parse, an id is empty or repeated, a buffer ends
// before it begins, or there is no row. O(rows log rows).
Result<NamedBuffers> ParseBuffersCsv(std::string_view text,
                                     std::string_view source);

// The same from a file; also returns the errors of ReadFile
// (base/files/file.h).
Result<NamedBuffers> ReadBuffersFile(const std::string& path,
                                     Bytes max_size = 1_GiB);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_FILES_BUFFERS_H_
