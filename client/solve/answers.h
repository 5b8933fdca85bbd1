#ifndef UCUDNN_CLIENT_SOLVE_ANSWERS_H_
#define UCUDNN_CLIENT_SOLVE_ANSWERS_H_

// The answers of the offline problems that are more than a workspace plan, and
// their JSON, which `ucudnn solve` prints and the C functions of
// client/include/ucudnn/solve.h return. Pure.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/files/buffers.h"
#include "base/files/times.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "solver/arena/allocation.h"
#include "solver/assign/assign.h"
#include "solver/assign/explain.h"
#include "solver/micro_batch/pareto.h"
#include "solver/micro_batch/wr.h"

namespace ucudnn {

struct AssignAnswer {
  std::vector<GpuTimes> gpus;
  AssignProblem problem;
  Assignment assignment;
  std::optional<Nanoseconds> even_split;
  std::vector<ShareExplanation> shares;
  std::vector<MarginalGain> gains;

  // The weight of a GPU's gradients: its share of the batch.
  double Weight(std::size_t gpu) const;
};

using SolveAssignmentBy =
    std::function<Result<Assignment>(const AssignProblem& problem)>;

// Errors of `solve` (SolveAssignment unless given) and MarginalGains.
Result<AssignAnswer> SolveAssign(std::vector<GpuTimes> gpus, BatchSize batch,
                                 const SolveAssignmentBy& solve = nullptr);
nlohmann::ordered_json ToJson(const AssignAnswer& answer);

// The Pareto front of `kernels`, which must be one kernel and outlive the
// result. kInvalidArgument, naming the choices, if there is not exactly one;
// errors of solver/micro_batch/pareto.h, prefixed with the kernel.
Result<ParetoFront> SolveFront(const Profile& kernels,
                               const WrRequest& request);

// The front or the plan of `kernels`, and under "notes" what is to be said of
// its accuracy, if anything.
nlohmann::ordered_json ToJson(const ParetoFront& front, const Profile& kernels);
nlohmann::ordered_json ToJson(const WorkspacePlan& plan,
                              const Profile& kernels);

// {"load":...,"pool":...,"lower_bound":...,"proven":...,"buffers":[...]}, and
// id,offset as CSV.
nlohmann::ordered_json ToJson(const Allocation& allocation,
                              const NamedBuffers& buffers);
std::string ToCsv(const Allocation& allocation, const NamedBuffers& buffers);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SOLVE_ANSWERS_H_
