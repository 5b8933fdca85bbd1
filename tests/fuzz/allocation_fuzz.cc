#include <vector>

#include "solver/arena/allocation.h"
#include "solver/check/validate_allocation.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/instance.h"

namespace ucudnn {

// Whatever the buffers and the limits: an allocation that an independent check
// accepts, or an error.
UCUDNN_FUZZ(allocation, text) {
  FuzzBytes bytes(text);
  AllocationOptions options;
  options.alignment = Bytes(bytes.Number());
  const std::int64_t capacity = bytes.Number();
  if (capacity != 0) options.capacity = Bytes(capacity);
  const Limits limits{.max_nodes = bytes.Byte() * 16, .stop = {}};
  std::vector<Buffer> buffers;
  while (!bytes.empty() && buffers.size() < 200) {
    Buffer buffer;
    buffer.begin = bytes.Number();
    // Mostly after the beginning, but anything may come.
    const std::int64_t length = bytes.Number();
    buffer.end =
        length < 240 && buffer.begin < 240 ? buffer.begin + length : length;
    buffer.size = Bytes(bytes.Number());
    buffers.push_back(buffer);
  }
  const auto allocation = Allocate(buffers, options, limits);
  if (!allocation) {
    CheckError(allocation.error());
    return;
  }
  UCUDNN_CHECK(ValidateAllocation(*allocation, buffers, options));
}

}  // namespace ucudnn
