// Fronts of the kernels of plans.

#include <algorithm>
#include <iterator>

#include "coordinator/plans/plan_service.h"
#include "proto/convert_plan.h"
#include "solver/micro_batch/pareto.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

// kNotFound: the plan has no such rank or kernel.
Result<const v1::KernelPlan*> Find(const v1::Plan& plan,
                                   const v1::GetFrontRequest& request) {
  if (request.rank() < 0 || request.rank() >= plan.ranks_size()) {
    return Fail(Code::kNotFound, "plan {} has ranks 0 to {}, not {}", plan.id(),
                plan.ranks_size() - 1, request.rank());
  }
  const auto& kernels = WorkspaceOf(plan, request.rank()).kernels();
  const auto found =
      std::ranges::find_if(kernels, [&](const v1::KernelPlan& kernel) {
        return kernel.layer() == request.layer() && kernel.op() == request.op();
      });
  if (found == kernels.end()) {
    return Fail(Code::kNotFound, "rank {} of plan {} has no kernel '{} {}'",
                request.rank(), plan.id(), request.layer(), request.op());
  }
  return &*found;
}

}  // namespace

Result<v1::Front> PlanService::GetFront(const v1::GetFrontRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const v1::Plan plan, PlanOf(request.plan_id()));
  UCUDNN_ASSIGN_OR_RETURN(const v1::KernelPlan* kernel, Find(plan, request));
  UCUDNN_ASSIGN_OR_RETURN(const JobRequest wanted, FromProto(plan.request()));
  const v1::RankPlan& rank = plan.ranks(request.rank());
  const std::vector<std::string> problem = {kernel->problem()};
  UCUDNN_ASSIGN_OR_RETURN(const auto drivers,
                          store_.agents.ListDrivers(rank.device_kind()));
  UCUDNN_ASSIGN_OR_RETURN(
      PointsByProblem found,
      store_.measurements.LoadProfile(rank.device_kind(), problem, drivers));
  std::vector<MeasuredPoint> points = std::move(found[problem[0]]);
  UCUDNN_RETURN_IF_ERROR(KeepAccurate(wanted.precision, wanted.max_error,
                                      &points, request.layer()));
  UCUDNN_ASSIGN_OR_RETURN(
      const ParetoFront front,
      SolvePareto(points, {.batch = BatchSize(rank.batch()),
                           .workspace_limit = Bytes(kMaxCount),
                           .policy = wanted.policy}));
  v1::Front message;
  message.set_problem(kernel->problem());
  message.set_device_kind(rank.device_kind());
  message.set_batch(rank.batch());
  for (std::size_t i = 0; i < front.points().size(); ++i) {
    v1::FrontPoint& point = *message.add_points();
    point.set_time_ns(front.points()[i].time.count());
    point.set_workspace_bytes(front.points()[i].workspace.count());
    for (const MicroBatch& micro : front.PlanAt(i)) {
      *point.add_micro_batches() = ucudnn::ToProto(micro);
    }
  }
  return message;
}

}  // namespace ucudnn
