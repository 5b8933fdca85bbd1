#ifndef UCUDNN_TESTS_GPU_MEMORY_LARGEST_H_
#define UCUDNN_TESTS_GPU_MEMORY_LARGEST_H_

// The largest batch that each policy trains at once within a budget.

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "tests/gpu/memory/rows.h"

namespace ucudnn::memory_rows {

struct LargestOptions {
  Bytes budget;
  std::vector<std::string> policies;
  double until = 0;  // in RowRunner::seconds; nothing begins after that
  double plan_seconds = 10;
  std::int64_t step = 32;  // batches are multiples of it
  std::int64_t most = 1024;
};

// For each policy a row of its largest batch: with estimated times and no
// workspaces, which needs no device, bounds are found; then these batches are
// measured, the largest first. A policy that has no plan then tries an eighth
// less, and so on. The last line lists what
// was not run. `spec` is a network with any batch. Errors of InputOf, of
// measuring, and of a lost device.
Status RunLargest(RowRunner& runner, const std::string& spec,
                  const LargestOptions& options);

}  // namespace ucudnn::memory_rows

#endif  // UCUDNN_TESTS_GPU_MEMORY_LARGEST_H_
