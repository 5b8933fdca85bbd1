#ifndef UCUDNN_CLIENT_REHEARSE_WORKLOAD_H_
#define UCUDNN_CLIENT_REHEARSE_WORKLOAD_H_

// One rank's convolutions of one training iteration, on random data: checks
// that the plan computes what undivided kernels do, and times it.

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/plan/plan.h"
#include "base/result.h"
#include "client/executor/executor.h"
#include "device/device.h"

namespace ucudnn::rehearse {

// For each operation, the largest error of any kernel: the largest difference
// of an element, relative to the largest element. Negative: no such kernel.
struct Errors {
  std::array<double, kConvOps.size()> by_op = {-1, -1, -1};
  // Separately, kernels that run Winograd on filters larger than 3x3, whose
  // errors are larger by nature. (cuDNN's in FP32: 1.2e-2 on AlexNet's 5x5.)
  double large_winograd = -1;

  double largest() const;
  // Whether each error is within `tolerance`, the last one within 30 times
  // that.
  bool Within(double tolerance) const;
};

// The error that a correct plan stays within: algorithms differ in rounding.
double Tolerance(Precision precision);

struct Timing {
  Nanoseconds median{0};
  Nanoseconds spread{0};  // half the interquartile range
  int iterations = 0;
  std::vector<Nanoseconds> times = {};  // of each, in order
};

// Used by one thread at a time, like its device, which must outlive it.
class Workload {
 public:
  // Called with the steps done and the total.
  using Progress = std::function<void(std::int64_t done, std::int64_t total)>;

  // Prepares the plan and allocates one buffer each for a, b and out, large
  // enough for every kernel. Captured work takes at most `graph_memory`. Errors
  // of Executor::Create; kResourceExhausted if memory runs out.
  static Result<std::unique_ptr<Workload>> Create(
      Device& device, const WorkspacePlan& plan,
      Bytes graph_memory = kDefaultGraphMemory);

  const Executor& executor() const { return *executor_; }

  // Runs every kernel as planned and undivided, and compares the results.
  Result<Errors> Check(const Progress& progress);

  // The device time of all kernels of the plan, one after the other: the median
  // over `iterations`, after a warm-up.
  Result<Timing> Measure(int iterations, const Progress& progress);
  // The same for the fastest undivided algorithms within the plan's limit,
  // which it first finds by measuring, enqueued one by one, as a job without a
  // plan enqueues them.
  Result<Timing> MeasureUndivided(int iterations, const Progress& progress);

 private:
  explicit Workload(Device& device) : device_(device) {}
  Status AllocateBuffers();
  ConvArgs Args() const;
  Result<std::string> Run(Executor& executor, std::size_t kernel, Bytes size);
  Result<Timing> MeasureWith(Executor& executor, int iterations,
                             const Progress& progress);

  Device& device_;
  WorkspacePlan plan_;
  std::unique_ptr<Executor> executor_;
  DeviceBuffer a_;
  DeviceBuffer b_;
  DeviceBuffer out_;
};

}  // namespace ucudnn::rehearse

#endif  // UCUDNN_CLIENT_REHEARSE_WORKLOAD_H_
