#ifndef UCUDNN_TESTS_CLIENT_TINY_MEMORY_PLAN_H_
#define UCUDNN_TESTS_CLIENT_TINY_MEMORY_PLAN_H_

// Memory plans of the tiny network (tests/client/tiny_network.h).

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/onnx/network_file.h"
#include "base/training/build.h"
#include "base/training/costs.h"
#include "base/training/json.h"
#include "solver/memory/policies.h"
#include "tests/client/tiny_network.h"

namespace ucudnn {

// A coordinator's answer: rank r has shares[r] images, under vDNN's plan.
inline JobPlan TinyMemoryPlan(const JobRequest& request,
                              const std::vector<std::int64_t>& shares) {
  JobPlan plan = TinyPlan(request, shares);
  for (std::size_t r = 0; r < shares.size(); ++r) {
    RankPlan& rank = plan.ranks[r];
    rank.workspace.Own().kernels.clear();
    if (shares[r] == 0) continue;
    TrainingGraph graph =
        BuildTrainingGraph(
            ParseGraph(ToCsv(TinyNetwork()), "tiny", rank.batch, "tiny")
                .value(),
            {})
            .value();
    UCUDNN_CHECK(
        SetDevice(DeviceModelPreset("K40").value(), &graph).has_value());
    MemoryRequest memory;
    memory.budget = request.memory->BudgetOf(r);
    const MemoryPlan made =
        PlanMemory(graph, memory, *FindMemoryPolicy("vdnn-all").value())
            .value();
    rank.memory = RankMemory{.budget = memory.budget, .peak = made.peak};
    rank.workspace.Own().total_time = made.time;
    if (MemoryPlanOf(plan, r) != nullptr) continue;
    plan.memory_plans.push_back({.device_kind = rank.device_kind,
                                 .batch = rank.batch,
                                 .budget = memory.budget,
                                 .plan = ToJsonWithGraph(made, graph).dump()});
  }
  return plan;
}

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_CLIENT_TINY_MEMORY_PLAN_H_
