#ifndef UCUDNN_CLIENT_SOLVE_ANSWERS_H_
#define UCUDNN_CLIENT_SOLVE_ANSWERS_H_

// The answers of the offline problems that are more than a workspace plan,
// and their JSON: what `ucudnn solve` prints and the C functions of
// client/include/ucudnn/solve.h return. Pure.

#include <nlohmann/json.hpp>
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

  // Of a GPU's gradient.
  double Weight(std::size_t gpu) const;
};

// Errors of SolveAssignment and MarginalGains.
Result<AssignAnswer> SolveAssign(std::vector<GpuTimes> gpus, BatchSize batch);
nlohmann::ordered_json ToJson(const AssignAnswer& answer);

// The front of the one kernel of `kernels`, which must outlive it.
// kInvalidArgument, naming what could be chosen, unless there is one; errors
// of solver/micro_batch/pareto.h, naming the kernel.
Result<ParetoFront> SolveFront(const Profile& kernels,
                               const WrRequest& request);
nlohmann::ordered_json ToJson(const ParetoFront& front);

// {"load":...,"pool":...,"lower_bound":...,"proven":...,"buffers":[...]}, and
// id,offset as CSV.
nlohmann::ordered_json ToJson(const Allocation& allocation,
                              const NamedBuffers& buffers);
std::string ToCsv(const Allocation& allocation, const NamedBuffers& buffers);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SOLVE_ANSWERS_H_
