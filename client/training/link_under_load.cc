#include "client/training/link_under_load.h"

#include <cmath>

#include "client/training/memory_run.h"

namespace ucudnn {

bool UpdateRate(const CopyTotals& copies, Nanoseconds latency, double* rate) {
  constexpr Bytes kEnough = 1_MiB;  // shorter copies mostly take the latency
  constexpr double kSame = 0.01;
  const double seen = copies.Rate(latency);
  if (seen == 0 || copies.bytes / copies.copies < kEnough) return false;
  if (std::abs(seen - *rate) <= kSame * *rate) return false;
  *rate = seen;
  return true;
}

Result<bool> MeasureLinkUnderLoad(Device& device, Operators& operators,
                                  const PreparedTraining& prepared,
                                  const MemoryPlan& plan,
                                  const ExecutionOptions& execution,
                                  const std::function<Status()>& begin,
                                  const std::stop_token& stop,
                                  DeviceBuffer* host, DeviceModel* link) {
  MemoryRunOptions options;
  // The median of five, since what else uses the link comes in bursts.
  options.steps = 6;
  options.warm_up = 1;
  options.execution = execution;
  options.execution.time_tasks = false;
  options.begin = begin;
  UCUDNN_ASSIGN_OR_RETURN(
      const MemoryRun run,
      RunMemoryPlan(device, operators, prepared, plan, options, stop, host));
  if (run.interrupted) return Fail(Code::kCancelled, "interrupted");
  const bool down = UpdateRate(MedianOf(run.offloads), link->transfer_latency,
                               &link->d2h_rate);
  const bool up = UpdateRate(MedianOf(run.prefetches), link->transfer_latency,
                             &link->h2d_rate);
  return down || up;
}

}  // namespace ucudnn
