#include "client/session/plan_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/files/json_object.h"
#include "base/training/json.h"
#include "solver/check/memory_plan.h"

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

// Whether the plan is of the kind that the job asks for.
Status CheckAskedMemory(const JobRequest& planned, const JobRequest& wanted) {
  if (!wanted.memory) return {};
  if (!planned.memory) {
    return Fail(Code::kFailedPrecondition,
                "it has no memory plans, the job asks for them");
  }
  if (!wanted.memory->momentum || planned.memory->momentum) return {};
  return Fail(Code::kFailedPrecondition,
              "its memory plans have no momentum, the job has");
}

// The forward convolutions, each as often as it occurs.
std::multiset<ConvGeometry> GeometriesOf(const std::vector<Kernel>& kernels) {
  std::multiset<ConvGeometry> geometries;
  for (const Kernel& kernel : kernels) {
    if (kernel.op == ConvOp::kForward) {
      geometries.insert(kernel.problem.geometry);
    }
  }
  return geometries;
}

std::multiset<ConvGeometry> GeometriesOf(const TrainingGraph& graph) {
  std::multiset<ConvGeometry> geometries;
  for (const Task& task : graph.tasks) {
    if (task.kind == TaskKind::kForward && task.work.conv) {
      geometries.insert(task.work.conv->geometry);
    }
  }
  return geometries;
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

// The rank's memory plan, as far as the plan of all ranks tells of it.
Status CheckRankMemory(const JobPlan& plan, std::size_t index,
                       const JobRequest& request) {
  const RankPlan& rank = plan.ranks[index];
  if (!rank.memory || MemoryPlanOf(plan, index) == nullptr) {
    return Fail(Code::kFailedPrecondition, "it has no memory plan of {} images",
                rank.batch.count());
  }
  if (!request.memory) return {};
  const Bytes budget = request.memory->BudgetOf(index);
  if (budget == Bytes(0) || rank.memory->peak <= budget) return {};
  return Fail(Code::kFailedPrecondition,
              "its memory plan needs {}, the job's budget is {}",
              FormatBytes(rank.memory->peak), FormatBytes(budget));
}

Status CheckRank(const JobPlan& plan, std::size_t index,
                 const JobRequest& request, const std::vector<Kernel>& kernels,
                 bool with_limits) {
  const RankPlan& rank = plan.ranks[index];
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
  if (plan.request.memory) return CheckRankMemory(plan, index, request);
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
  if (request.max_error > 0) {
    UCUDNN_RETURN_IF_ERROR(
        Same("max_error", plan.request.max_error, request.max_error));
  }
  UCUDNN_RETURN_IF_ERROR(Same("a number of ranks:", plan.ranks.size(),
                              request.device_kinds.size()));
  UCUDNN_RETURN_IF_ERROR(CheckAskedMemory(plan.request, request));
  BatchSize sum;
  for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
    const RankPlan& rank = plan.ranks[i];
    UCUDNN_RETURN_IF_ERROR(Same(fmt::format("rank {} on device kind", i),
                                rank.device_kind, request.device_kinds[i]));
    if (Status fits = CheckRank(plan, i, request, kernels, with_limits);
        !fits) {
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

Status CheckMemoryPlan(const JobPlan& plan, std::size_t rank,
                       const std::vector<Kernel>& kernels, Bytes memory) {
  const RankPlan& planned = plan.ranks[rank];
  if (planned.batch == BatchSize(0)) return {};
  const DeviceMemoryPlan* const text = MemoryPlanOf(plan, rank);
  if (text == nullptr) {
    return Fail(Code::kFailedPrecondition, "there is no memory plan");
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto json, ParseJson(text->plan));
  JsonObject object(json, "memory plan");
  TrainingGraph graph;
  object.ReadInside("graph", [&](const auto& body, std::string path) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(graph, TrainingGraphOf(body, std::move(path)));
    return {};
  });
  UCUDNN_RETURN_IF_ERROR(object.status());
  if (graph.batch != planned.batch) {
    return Fail(Code::kFailedPrecondition,
                "its memory plan is for {} images, the rank has {}",
                graph.batch.count(), planned.batch.count());
  }
  if (!kernels.empty() && GeometriesOf(graph) != GeometriesOf(kernels)) {
    return Fail(Code::kFailedPrecondition,
                "its memory plan is for a network with other convolutions");
  }
  UCUDNN_ASSIGN_OR_RETURN(const MemoryPlan events,
                          MemoryPlanOf(json, graph, "memory plan"));
  if (events.peak > memory) {
    return Fail(Code::kFailedPrecondition,
                "its memory plan needs {}, the device has {}",
                FormatBytes(events.peak), FormatBytes(memory));
  }
  if (Status safe = ValidateMemoryPlan(events, graph); !safe) {
    return Fail(Code::kFailedPrecondition, "its memory plan is not safe: {}",
                safe.error().message);
  }
  return {};
}

}  // namespace ucudnn
