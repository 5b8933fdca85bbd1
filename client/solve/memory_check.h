#ifndef UCUDNN_CLIENT_SOLVE_MEMORY_CHECK_H_
#define UCUDNN_CLIENT_SOLVE_MEMORY_CHECK_H_

// Checks memory plans that were written as JSON: what `ucudnn check` and
// ucudnn_solve_check_memory_plan (client/include/ucudnn/solve.h) do.

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/training/graph.h"
#include "base/training/memory_plan.h"
#include "client/solve/memory.h"

namespace ucudnn {

struct CheckedMemoryPlans {
  TrainingGraph graph;
  std::vector<MemoryPlan> plans;
};

// `plans` is what `ucudnn solve memory -o json` prints: a plan, or those of
// policy "all", of which those that are not feasible are passed over. The graph
// is read from `graph` (--graph-out), or from the plans' own field "graph".
// kInvalidArgument, naming the input, and either the field, its value and what
// is accepted, or the rule that a plan breaks and where
// (solver/check/memory_plan.h): "plan.json: R14 event 17 (...): ...".
// Thread-safe. O(events * live blocks) of each plan.
Result<CheckedMemoryPlans> CheckMemoryPlans(
    const MemoryProblem::Input& plans,
    const std::optional<MemoryProblem::Input>& graph);

// {"plans":[{"policy":...,"events":...,"time_us":...,"peak_bytes":...}]}
nlohmann::ordered_json ToJson(const CheckedMemoryPlans& checked);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SOLVE_MEMORY_CHECK_H_
