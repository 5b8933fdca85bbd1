#include "solver/memory/policies.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "solver/check/memory_plan.h"
#include "solver/check/validate.h"
#include "solver/memory/best/best.h"
#include "solver/memory/bounds.h"
#include "solver/memory/hmms.h"
#include "solver/memory/modnn/modnn.h"
#include "solver/memory/placement.h"
#include "solver/memory/summary.h"
#include "solver/memory/vdnn.h"

namespace ucudnn {
namespace {

using Offload = VdnnOptions::Offload;
using Algorithms = VdnnOptions::Algorithms;

template <Offload offload, Algorithms algorithms, bool synchronous>
Result<MemoryPlan> Vdnn(const TrainingGraph& graph,
                        const MemoryRequest& request) {
  return PlanVdnn(graph, request, {offload, algorithms, synchronous});
}

template <bool synchronous>
Result<MemoryPlan> Dynamic(const TrainingGraph& graph,
                           const MemoryRequest& request) {
  return PlanVdnnDynamic(graph, request, synchronous);
}

// (p), and (m) where that does not fit.
template <Offload offload, bool synchronous>
Result<MemoryPlan> FastestThatFits(const TrainingGraph& graph,
                                   const MemoryRequest& request) {
  Result<MemoryPlan> plan =
      Vdnn<offload, Algorithms::kFastest, synchronous>(graph, request);
  if (plan || plan.error().code != Code::kFailedPrecondition) return plan;
  return Vdnn<offload, Algorithms::kLeastMemory, synchronous>(graph, request);
}

Status CheckGpus(const MemoryRequest& request, const MemoryPolicy& policy) {
  if (request.gpus == 1 || policy.several_gpus) return {};
  std::vector<std::string_view> names;
  for (const MemoryPolicy& other : MemoryPolicies()) {
    if (other.several_gpus) names.push_back(other.name);
  }
  return Fail(Code::kInvalidArgument,
              "{} does not plan for {} GPUs; 1 GPU, or {} is accepted",
              policy.name, request.gpus, fmt::join(names, ", "));
}

}  // namespace

const std::vector<MemoryPolicy>& MemoryPolicies() {
  constexpr Algorithms kM = Algorithms::kLeastMemory;
  constexpr Algorithms kP = Algorithms::kFastest;
  static const std::vector<MemoryPolicy> kPolicies = {
      {"baseline", "nothing leaves the device", PlanBaseline},
      {"vdnn-all", "offload all inputs of feature layers: (p), else (m)",
       FastestThatFits<Offload::kAll, true>},
      {"vdnn-all-m", "the same with the least workspace",
       Vdnn<Offload::kAll, kM, true>, false},
      {"vdnn-all-p", "the same with the fastest algorithms",
       Vdnn<Offload::kAll, kP, true>, false},
      {"vdnn-conv", "offload inputs of convolutions: (p), else (m)",
       FastestThatFits<Offload::kConv, true>},
      {"vdnn-conv-m", "the same with the least workspace",
       Vdnn<Offload::kConv, kM, true>, false},
      {"vdnn-conv-p", "the same with the fastest algorithms",
       Vdnn<Offload::kConv, kP, true>, false},
      {"vdnn-dyn", "vDNN's choice among these, step by step", Dynamic<true>},
      {"vdnn-ext", "the same choice without synchronising after each layer",
       Dynamic<false>},
      {"vdnn-ext-all-m", "vdnn-all-m without synchronising",
       Vdnn<Offload::kAll, kM, false>, false},
      {"vdnn-ext-all-p", "vdnn-all-p without synchronising",
       Vdnn<Offload::kAll, kP, false>, false},
      {"vdnn-ext-conv-m", "vdnn-conv-m without synchronising",
       Vdnn<Offload::kConv, kM, false>, false},
      {"vdnn-ext-conv-p", "vdnn-conv-p without synchronising",
       Vdnn<Offload::kConv, kP, false>, false},
      {"hmms", "offload what the link can move without any task waiting",
       PlanHmms},
      {"modnn", "sub-batches that fit, and transfers where memory runs out",
       PlanModnn, true, true},
      {"best", "a search that begins with the fastest plan of all these",
       PlanBest},
  };
  return kPolicies;
}

Result<const MemoryPolicy*> FindMemoryPolicy(std::string_view name) {
  std::vector<std::string_view> names;
  for (const MemoryPolicy& policy : MemoryPolicies()) {
    if (policy.name == name) return &policy;
    names.push_back(policy.name);
  }
  return Fail(Code::kNotFound, "there is no policy '{}'; {} is accepted",
              Excerpt(name), fmt::join(names, ", "));
}

Result<MemoryPlan> PlanWithin(const TrainingGraph& graph,
                              const MemoryRequest& request,
                              const MemoryPolicy& policy) {
  UCUDNN_ASSIGN_OR_RETURN(MemoryPlan plan, policy.plan(graph, request));
  plan.policy = policy.name;
  if (request.streams > 1) {
    Limits limits;
    limits.max_nodes = kMostPlacementNodes;
    limits.stop = request.stop;
    PlaceForStreams(graph, request.streams, limits, &plan);
    Summarise(graph, &plan);
  }
  SetBounds(graph, request, &plan);
  if (kSolversCheckThemselves) RequireValid(ValidateMemoryPlan(plan, graph));
  return plan;
}

Result<MemoryPlan> PlanMemory(const TrainingGraph& graph,
                              const MemoryRequest& request,
                              const MemoryPolicy& policy) {
  if (request.budget < Bytes(1)) {
    return Fail(Code::kInvalidArgument,
                "the budget is {} bytes; 1 or more is accepted",
                request.budget.count());
  }
  UCUDNN_RETURN_IF_ERROR(CheckGpus(request, policy));
  Result<MemoryPlan> plan = PlanWithin(graph, request, policy);
  if (plan) return plan;
  Error error = std::move(plan).error();
  if (error.code == Code::kFailedPrecondition) {
    const std::optional<Bytes> enough = SmallestBudget(graph, request, policy);
    if (enough) {
      error.message += fmt::format("; a budget of {} ({} bytes) would do",
                                   HumanBytes(*enough), enough->count());
      error.least = enough->count();
    }
  }
  return Within(policy.name, std::move(error));
}

std::optional<Bytes> SmallestBudget(const TrainingGraph& graph,
                                    const MemoryRequest& request,
                                    const MemoryPolicy& policy) {
  const auto fits = [&](Bytes budget) {
    MemoryRequest other = request;
    other.budget = budget;
    other.any_plan = true;
    return policy.plan(graph, other).has_value();
  };
  Bytes low = std::max(request.budget, LowerBoundBytes(graph, true));
  Bytes high = low * 2;
  const Bytes most(std::int64_t{1} << 60);
  while (!fits(high)) {
    low = high;
    if (high > most) return std::nullopt;
    high = high * 2;
  }
  while (high - low > std::max(1_MiB, high / 1000)) {
    const Bytes middle = low + (high - low) / 2;
    (fits(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace ucudnn
