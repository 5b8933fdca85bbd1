#include "client/solve/request.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

namespace {

void CheckJoint(std::string_view text) {
  const Result<JointMemoryRequest> request = ParseJointMemoryRequest(text);
  if (!request) return CheckError(request.error());
  UCUDNN_CHECK(request->problem.batch >= BatchSize(1));
  UCUDNN_CHECK(request->step >= BatchSize(1));
  for (const JointMemoryGpu& gpu : request->gpus) {
    UCUDNN_CHECK(Validate(gpu.device).has_value());
    UCUDNN_CHECK(gpu.budget >= Bytes(0));
  }
}

}  // namespace

// What is read as a request for memory plans is within the ranges that planners
// take.
UCUDNN_FUZZ(memory_request, text) {
  CheckJoint(text);
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
