#ifndef UCUDNN_CLIENT_SOLVE_ALLOT_H_
#define UCUDNN_CLIENT_SOLVE_ALLOT_H_

// Devices for jobs, from measurements and files: what `ucudnn allocate` does
// between its options and the answer.

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/profile.h"
#include "base/result.h"
#include "client/solve/allot_jobs.h"
#include "solver/allot/allot.h"
#include "solver/limits.h"

namespace ucudnn {

// Free devices of one kind, which is a device of the profile.
struct FreeDevices {
  std::string kind;
  std::int64_t count = 0;
};

// Reads "KIND=COUNT[,KIND=COUNT...]". A kind may contain '=', but no ','.
// kInvalidArgument, naming the part, also for a kind that comes twice.
Result<std::vector<FreeDevices>> ParseFreeDevices(std::string_view text);

// "share" or "throughput".
std::string_view Name(AllotGoal goal);
Result<AllotGoal> ParseAllotGoal(std::string_view text);

struct AllotAnswer {
  JobsToAllot request;
  std::vector<FreeDevices> free;
  AllotProblem problem;
  Allotment allotment;
  std::vector<std::string> notes;  // for people
};

// Each job's times of every kind are those of its convolutions under its limit
// (solver/joint.h). A kind on which a job's network was not measured is not
// used for that job, and a note says so.
//
// kInvalidArgument if the profile has no measurement of a kind or of a job's
// network, or lacks layers on one of the kinds; errors of IterationTimes and
// SolveAllotment, in which jobs are named.
Result<AllotAnswer> SolveAllot(
    JobsToAllot request, std::vector<FreeDevices> free, const Profile& profile,
    AllotGoal goal, const Limits& limits = {},
    const std::function<void(const AllotProgress&)>& progress = {});

nlohmann::ordered_json ToJson(const AllotAnswer& answer);

// The options of a heterogeneous Slurm job, one component for each kind:
//   --ntasks=2 --gpus-per-task=h200:1 : --ntasks=1 --gpus-per-task=a100:1
std::string SlurmOptions(const AllotAnswer& answer, std::size_t job);

// For each kind of a job, what its pods select and request:
//   [{"replicas":2,"nodeSelector":{"nvidia.com/gpu.product":"NVIDIA-H200"},
//     "resources":{"limits":{"nvidia.com/gpu":1}}}]
nlohmann::ordered_json KubernetesSelectors(const AllotAnswer& answer,
                                           std::size_t job);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SOLVE_ALLOT_H_
