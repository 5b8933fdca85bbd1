#include "base/files/buffers.h"
#include "solver/arena/allocation.h"
#include "solver/check/validate_allocation.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// What is read can be allocated, or its sizes are too large in all.
UCUDNN_FUZZ(buffers_csv, text) {
  const auto read = ParseBuffersCsv(text, "fuzz");
  if (!read) {
    CheckError(read.error());
    return;
  }
  UCUDNN_CHECK(!read->buffers.empty());
  UCUDNN_CHECK(read->ids.size() == read->buffers.size());
  const auto allocation =
      Allocate(read->buffers, {}, {.max_nodes = 2000, .stop = {}});
  if (!allocation) {
    CheckError(allocation.error());
    UCUDNN_CHECK(allocation.error().code == Code::kOutOfRange);
  }
}

}  // namespace ucudnn
