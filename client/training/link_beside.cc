#include "client/training/link_beside.h"

#include <cmath>

#include "client/training/memory_run.h"

namespace ucudnn {
namespace {

// Shorter copies mostly take the latency.
constexpr Bytes kEnough = 1_MiB;

// Sets the rate by `copies`; returns whether it changed.
bool SetRate(const CopyTotals& copies, Nanoseconds latency, double* rate) {
  constexpr double kSame = 0.01;
  const double seen = copies.Rate(latency);
  if (seen == 0 || copies.bytes / copies.copies < kEnough) return false;
  const bool changed = std::abs(seen - *rate) > kSame * *rate;
  *rate = seen;
  return changed;
}

}  // namespace

Result<bool> MeasureLinkBeside(Device& device, Operators& operators,
                               const MemoryPlan& plan,
                               const ExecutionOptions& execution,
                               const std::stop_token& stop, DeviceBuffer* host,
                               PreparedTraining* prepared) {
  MemoryRunOptions options;
  options.steps = 3;
  options.warm_up = 1;
  options.execution = execution;
  options.execution.time_tasks = false;
  UCUDNN_ASSIGN_OR_RETURN(
      const MemoryRun run,
      RunMemoryPlan(device, operators, *prepared, plan, options, stop, host));
  if (run.interrupted) return Fail(Code::kCancelled, "interrupted");
  DeviceModel& link = prepared->training.device;
  const bool down =
      SetRate(run.offloads, link.transfer_latency, &link.d2h_rate);
  const bool up =
      SetRate(run.prefetches, link.transfer_latency, &link.h2d_rate);
  return down || up;
}

}  // namespace ucudnn
