#ifndef UCUDNN_CLIENT_SOLVE_REQUEST_H_
#define UCUDNN_CLIENT_SOLVE_REQUEST_H_

// Parses the requests of client/include/ucudnn/solve.h.

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/onnx/network_file.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "client/solve/joint_memory.h"
#include "client/solve/memory.h"
#include "solver/arena/allocation.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {

class JsonObject;

// How long an allocation is improved unless a limit is given.
inline constexpr std::chrono::seconds kAllocationTime{60};
// The most that may be given, here and for memory plans: 11 days.
inline constexpr std::chrono::seconds kMostAllocationTime{1'000'000};

struct DivisionRequest {
  WrRequest wr;
  ProfileFilter filter;
};

struct SharedArenaRequest {
  DivisionRequest division;
  std::string network_name = "network";  // the model's
  InputShapes shapes;                    // of its inputs
};

struct AssignRequest {
  BatchSize batch;
  std::string model;
};

struct AllocationRequest {
  AllocationOptions options;
  std::chrono::milliseconds time_limit = kAllocationTime;
};

struct JointMemoryRequest {
  MemoryProblem problem;
  std::vector<JointMemoryGpu> gpus;
  BatchSize step{1};
};

// "time_limit_s", if it is there.
void ReadTimeLimit(JsonObject& object, std::chrono::milliseconds* limit);

// kInvalidArgument names the field, its value and what is accepted; also for
// missing and unknown fields.
Result<DivisionRequest> ParseDivisionRequest(std::string_view text);
Result<SharedArenaRequest> ParseSharedArenaRequest(std::string_view text);
Result<AssignRequest> ParseAssignRequest(std::string_view text);
Result<AllocationRequest> ParseAllocationRequest(std::string_view text);
// All but the network and, of the first, the profile.
Result<MemoryProblem> ParseMemoryRequest(std::string_view text);
Result<JointMemoryRequest> ParseJointMemoryRequest(std::string_view text);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SOLVE_REQUEST_H_
