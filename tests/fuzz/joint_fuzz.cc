#include "solver/check/validate_assignment.h"
#include "solver/joint.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/instance.h"

namespace ucudnn {
namespace {

JointKind KindOf(FuzzBytes& bytes) {
  JointKind kind;
  const WrRequest request = FuzzRequest(bytes);
  kind.workspace_limit = request.workspace_limit;
  kind.policy = request.policy;
  const std::int64_t head = bytes.Byte();
  if (head / 2 % 4 == 0) {
    kind.fixed = Nanoseconds(bytes.Number());
    kind.per_image = Nanoseconds(bytes.Number());
  }
  for (std::int64_t k = head / 8 % 4; k >= 0; --k) {
    kind.kernels.kernels.push_back(
        FuzzKernel(bytes, kind.kernels.kernels.size()));
  }
  return kind;
}

}  // namespace

// A plan for each GPU that takes part, all of which an independent check
// accepts, or an error.
UCUDNN_FUZZ(joint, text) {
  FuzzBytes bytes(text);
  JointProblem problem;
  problem.batch = BatchSize(std::min<std::int64_t>(bytes.Number(), 200));
  const std::int64_t head = bytes.Byte();
  for (std::int64_t k = head % 3; k >= 0; --k) {
    problem.kinds.push_back(KindOf(bytes));
  }
  for (std::int64_t g = head / 4 % 8; g > 0; --g) {
    const std::int64_t gpu = bytes.Byte();
    JointGpu& added = problem.gpus.emplace_back();
    added.kind = static_cast<std::size_t>(gpu % std::ssize(problem.kinds));
    if (gpu / 4 % 4 == 0) added.max_batch = BatchSize(bytes.Number());
  }
  if (head / 32 % 2 == 1) {
    for (std::int64_t n = bytes.Byte() % 8; n > 0; --n) {
      problem.shares.emplace_back(bytes.Number());
    }
  }
  if (head / 64 % 4 == 1) {
    for (std::int64_t n = bytes.Byte() % 12; n > 0; --n) {
      problem.communication.emplace_back(bytes.Number());
    }
  }
  const auto joint = SolveJoint(problem, {.max_nodes = 5'000, .stop = {}});
  if (!joint) return CheckError(joint.error());
  UCUDNN_CHECK(ValidateJoint(*joint, problem));
}

}  // namespace ucudnn
