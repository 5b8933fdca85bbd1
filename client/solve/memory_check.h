#ifndef UCUDNN_CLIENT_SOLVE_MEMORY_CHECK_H_
#define UCUDNN_CLIENT_SOLVE_MEMORY_CHECK_H_

// Checks memory plans that were written as JSON: what `ucudnn check` and
// ucudnn_solve_check_memory_plan (client/include/ucudnn/solve.h) do.

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "client/solve/memory.h"

namespace ucudnn {

struct CheckedMemory {
  std::shared_ptr<const TrainingGraph> graph;
  MemoryPlan plan;
};

// `plans` is what `ucudnn solve memory|joint -o json` prints: a plan, or
// several as "plans", of which those that are not feasible are passed over. The
// graph is read from `graph` (--graph-out), from the field "graph" beside the
// plans, or from the same field of each plan. kInvalidArgument, naming the
// input, and either the field, its value and what is accepted, or the rule that
// a plan breaks and where (solver/check/memory_plan.h): "plan.json: R14 event
// 17 (...): ...". Thread-safe. O(events * live blocks) of each plan.
Result<std::vector<CheckedMemory>> CheckMemoryPlans(
    const MemoryProblem::Input& plans,
    const std::optional<MemoryProblem::Input>& graph);

// {"plans":[{"policy":...,"events":...,"time_us":...,"peak_bytes":...}]}
nlohmann::ordered_json ToJson(const std::vector<CheckedMemory>& checked);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SOLVE_MEMORY_CHECK_H_
