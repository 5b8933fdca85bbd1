#include "client/session/plan_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace ucudnn {
namespace {

template <class T>
Status Same(std::string_view what, const T& planned, const T& wanted) {
  if (planned == wanted) return {};
  return Fail(Code::kFailedPrecondition, "it is for {} {}, the job has {}",
              what, planned, wanted);
}

Status CheckKernels(const WorkspacePlan& plan,
                    const std::vector<Kernel>& kernels) {
  std::map<std::pair<std::string, ConvOp>, const ConvProblem*> wanted;
  for (const Kernel& kernel : kernels) {
    wanted[{kernel.layer, kernel.op}] = &kernel.problem;
  }
  for (const KernelPlan& kernel : plan.kernels) {
    const auto found = wanted.find({kernel.layer, kernel.op});
    if (found == wanted.end()) {
      return Fail(Code::kFailedPrecondition,
                  "its kernel {} is not one of the job's, or is there twice",
                  KernelName(kernel));
    }
    if (!kernel.problem || *kernel.problem != *found->second) {
      return Fail(Code::kFailedPrecondition,
                  "its kernel {} is {}, the job's is {}", KernelName(kernel),
                  kernel.problem ? ToString(*kernel.problem) : "not told",
                  ToString(*found->second));
    }
    wanted.erase(found);
  }
  if (wanted.empty()) return {};
  const auto& [layer, op] = wanted.begin()->first;
  return Fail(Code::kFailedPrecondition, "it has no kernel {} {}", layer,
              Name(op));
}

Status CheckLimits(const WorkspacePlan& plan, const JobRequest& request) {
  const bool total = request.total_workspace > Bytes(0);
  const Bytes limit = request.KernelLimit();
  for (const KernelPlan& kernel : plan.kernels) {
    // With a total limit segments lie within it.
    const Bytes end = kernel.workspace +
                      (total ? kernel.offset.value_or(Bytes(0)) : Bytes(0));
    if (end <= limit) continue;
    return Fail(Code::kFailedPrecondition,
                "its kernel {} needs a workspace up to {}, the limit is {}",
                KernelName(kernel), FormatBytes(end), FormatBytes(limit));
  }
  return {};
}

Status CheckRank(const RankPlan& rank, const JobRequest& request,
                 const std::vector<Kernel>& kernels, bool with_limits) {
  const double share = static_cast<double>(rank.batch.count()) /
                       static_cast<double>(request.batch.count());
  if (std::abs(rank.weight - share) > 1e-3) {
    return Fail(Code::kFailedPrecondition,
                "it has weight {} for {} of {} images", rank.weight,
                rank.batch.count(), request.batch.count());
  }
  if (rank.batch == BatchSize(0)) return {};
  if (rank.workspace->batch != rank.batch) {
    return Fail(Code::kFailedPrecondition,
                "it has {} images, and kernels for {}", rank.batch.count(),
                rank.workspace->batch.count());
  }
  if (!kernels.empty()) {
    UCUDNN_RETURN_IF_ERROR(CheckKernels(rank.workspace, kernels));
  }
  return with_limits ? CheckLimits(rank.workspace, request) : Status();
}

}  // namespace

Status CheckPlan(const JobPlan& plan, const JobRequest& request,
                 const std::vector<Kernel>& kernels, bool with_limits) {
  UCUDNN_RETURN_IF_ERROR(Validate(plan));
  UCUDNN_RETURN_IF_ERROR(
      Same("network", plan.request.network, request.network));
  UCUDNN_RETURN_IF_ERROR(
      Same("a batch of", plan.request.batch.count(), request.batch.count()));
  UCUDNN_RETURN_IF_ERROR(
      Same("precision", Name(plan.request.precision), Name(request.precision)));
  UCUDNN_RETURN_IF_ERROR(
      Same("layout", Name(plan.request.layout), Name(request.layout)));
  UCUDNN_RETURN_IF_ERROR(Same("a number of ranks:", plan.ranks.size(),
                              request.device_kinds.size()));
  BatchSize sum;
  for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
    const RankPlan& rank = plan.ranks[i];
    UCUDNN_RETURN_IF_ERROR(Same(fmt::format("rank {} on device kind", i),
                                rank.device_kind, request.device_kinds[i]));
    if (Status fits = CheckRank(rank, request, kernels, with_limits); !fits) {
      return Within(fmt::format("for rank {}", i), std::move(fits).error());
    }
    sum = sum + rank.batch;
  }
  if (sum == request.batch) return {};
  return Fail(Code::kFailedPrecondition,
              "its ranks have {} images together, the job has {}", sum.count(),
              request.batch.count());
}

Status CheckOnDevice(Device& device, const WorkspacePlan& plan) {
  // What one kernel needs, another like it does too.
  std::map<std::tuple<ConvProblem, BatchSize, Algorithm>, Bytes> workspaces;
  for (const KernelPlan& kernel : plan.kernels) {
    if (!kernel.problem) {
      return Fail(Code::kFailedPrecondition, "{} has no problem",
                  KernelName(kernel));
    }
    for (const MicroBatch& micro : kernel.micro_batches) {
      const auto [entry, is_new] = workspaces.try_emplace(
          {*kernel.problem, micro.batch, micro.algorithm});
      if (is_new) {
        const auto prepared =
            device.Prepare(*kernel.problem, micro.batch, micro.algorithm);
        if (!prepared) {
          return Fail(Code::kFailedPrecondition,
                      "{}: device {} has no algorithm {} {} for {} images: {}",
                      KernelName(kernel), device.info().id,
                      micro.algorithm.name, micro.algorithm.math,
                      micro.batch.count(), prepared.error().message);
        }
        entry->second = (*prepared)->workspace();
      }
      if (entry->second > kernel.workspace) {
        return Fail(Code::kFailedPrecondition,
                    "{}: {} on {} images needs {} on device {}, the plan has "
                    "{}",
                    KernelName(kernel), micro.algorithm.name,
                    micro.batch.count(), FormatBytes(entry->second),
                    device.info().id, FormatBytes(kernel.workspace));
      }
    }
  }
  return {};
}

}  // namespace ucudnn
