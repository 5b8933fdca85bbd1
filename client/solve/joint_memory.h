#ifndef UCUDNN_CLIENT_SOLVE_JOINT_MEMORY_H_
#define UCUDNN_CLIENT_SOLVE_JOINT_MEMORY_H_

// A mini-batch shared among unlike GPUs, each of which trains its share under a
// memory plan: everything that `ucudnn solve joint` does between its options
// and the answer.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/training/device_model.h"
#include "base/units.h"
#include "client/solve/memory.h"
#include "solver/joint_memory.h"

namespace ucudnn {

struct JointMemoryGpu {
  std::string name;  // as the user named it
  DeviceModel device;
  Bytes budget;  // 0: the device's memory
  // Its measurements as CSV; the device model estimates what they lack.
  std::optional<MemoryProblem::Input> profile = {};
};

struct JointMemoryAnswer {
  std::vector<JointMemoryGpu> gpus;
  JointMemoryProblem problem;
  JointMemoryPlan plan;
  std::vector<std::string> notes = {};  // for people

  // Null if the GPU is left out.
  const MemoryPlan* PlanOf(std::size_t gpu) const;
  // Why the GPU has its batch, and how it trains it.
  std::string WhyOf(std::size_t gpu) const;
};

// `problem` tells all but the devices, their budgets and profiles; its
// mini-batch is shared, in multiples of `step`. Errors of SolveMemory and
// solver/joint_memory.h. Thread-safe.
Result<JointMemoryAnswer> SolveJointMemory(const MemoryProblem& problem,
                                           std::vector<JointMemoryGpu> gpus,
                                           BatchSize step);

// {"batch":...,"makespan_us":...,"lower_bound_us":...,"makespan_whole_us":...,
//  "gpus":[{"gpu":...,"batch":...,"weight":...,"time_us":...,"why":...,
//  "plan":0}],"plans":[...]}; `plan` is an index into `plans`, each of which is
// as `ucudnn solve memory` prints it. Besides "notes", if there are any.
nlohmann::ordered_json ToJson(const JointMemoryAnswer& answer);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SOLVE_JOINT_MEMORY_H_
