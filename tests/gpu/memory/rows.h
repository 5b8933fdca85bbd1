#ifndef UCUDNN_TESTS_GPU_MEMORY_ROWS_H_
#define UCUDNN_TESTS_GPU_MEMORY_ROWS_H_

// What the program ucudnn_gpu_memory measures and prints.

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/training/device_model.h"
#include "base/training/memory_plan.h"
#include "base/units.h"
#include "client/training/memory_run.h"
#include "client/training/prepared_training.h"
#include "device/device.h"
#include "device/operators/operators.h"

namespace ucudnn::memory_rows {

// One network with its place among the rows.
struct Job {
  std::string spec;  // FILE:BATCH:PRECISION
  TrainingInput input;
  std::unique_ptr<PreparedTraining> prepared;
  Bytes plain;  // peak when nothing leaves
  Nanoseconds plain_step{0};
};

Result<TrainingInput> InputOf(const std::string& spec);

struct PlanOptions {
  Bytes budget;
  bool sub_batches = false;
  double seconds = 20;
  bool any = false;  // whatever fits will do
};
// `policy` may end in "+recompute". Without the least budget that would do
// where there is no plan, which takes long to find. Thread safe.
Result<MemoryPlan> PlanOf(const TrainingGraph& training,
                          const std::string& policy,
                          const PlanOptions& options);

class RowRunner {
 public:
  // `steps` of each row, of which the first does not count.
  RowRunner(Device& device, Operators& operators, DeviceModel model, int steps)
      : device_(device),
        operators_(operators),
        model_(std::move(model)),
        steps_(steps) {}

  Device& device() { return device_; }
  const DeviceModel& model() const { return model_; }
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - begun_).count();
  }

  // Measures the network.
  Result<std::unique_ptr<Job>> Prepare(const std::string& spec,
                                       TrainingInput input);
  // Sets the rates of `link` to what copies of `plan` reach. Returns whether
  // they changed. Errors of a lost device; other plans are left alone.
  Result<bool> MeasureLink(const Job& job, const MemoryPlan& plan,
                           DeviceModel* link);
  // Makes room for copies of so much; pinning memory takes seconds.
  Status ReserveHost(Bytes size);

  struct Extras {
    bool poison = false;      // train again with all other memory poisoned
    bool time_tasks = false;  // and again with every task timed
  };
  // Runs `plan`, which was made with `link`, and prints its row, which also has
  // `more`. Errors of a lost device; those of a row are printed.
  Status Execute(Job& job, const std::string& policy, const MemoryPlan& plan,
                 const DeviceModel& link, const nlohmann::ordered_json& more,
                 const Extras& extras);
  // A row that has no plan.
  void PrintNoPlan(const Job& job, const std::string& policy,
                   const nlohmann::ordered_json& more, const Error& why);

 private:
  using Clock = std::chrono::steady_clock;

  Device& device_;
  Operators& operators_;
  const DeviceModel model_;
  const int steps_;
  const Clock::time_point begun_ = Clock::now();
  DeviceBuffer host_;
};

void PrintLine(const nlohmann::ordered_json& json);

}  // namespace ucudnn::memory_rows

#endif  // UCUDNN_TESTS_GPU_MEMORY_ROWS_H_
