#include "client/solve/request.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// What is read as a request for a memory plan is within the ranges that
// planners take.
UCUDNN_FUZZ(text) {
  const Result<MemoryProblem> problem = ParseMemoryRequest(text);
  if (!problem) return CheckError(problem.error());
  UCUDNN_CHECK(problem->batch >= BatchSize(1));
  UCUDNN_CHECK(problem->batch <= kMaxBatchSize);
  UCUDNN_CHECK(Validate(problem->device).has_value());
  UCUDNN_CHECK(problem->request.gpus >= 1);
  UCUDNN_CHECK(problem->request.gpus <= kMaxMemoryGpus);
  UCUDNN_CHECK(problem->request.budget >= Bytes(0));
  UCUDNN_CHECK(problem->time_limit > std::chrono::milliseconds(0));
}

}  // namespace ucudnn
