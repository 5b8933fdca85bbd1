#ifndef UCUDNN_DEVICE_MEASURE_MEASURE_H_
#define UCUDNN_DEVICE_MEASURE_MEASURE_H_

// How long each algorithm of a convolution takes on a device, measured well
// and cheaply: a warm-up, then repeats until their median is settled.
//
// What cannot matter costs little. An algorithm that is `hopeless_factor`
// slower than another one with no more workspace is dropped; its time is first
// estimated from one image and from four, so that a run of minutes is never
// begun. An algorithm that slow but with less workspace than the fast ones is
// what remains when memory is short: it is measured, once. A last resort
// (Candidate::last_resort) is not even begun where another algorithm fits;
// where none does, its time is estimated first from a single filter of each
// group, as one image may take it half a minute.
//
// Runs do not find their operands in the device's cache, as micro-batches of a
// job hardly do (device/measure/operand_ring.h, docs/adr/0020).

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/profile.h"
#include "base/result.h"
#include "device/device.h"
#include "device/measure/operand_ring.h"

namespace ucudnn {

struct MeasureOptions {
  // Timed runs of one algorithm, after one run to warm up.
  int min_repeats = 3;
  int max_repeats = 30;
  // Runs shorter than this are timed several at once, back to back: that is
  // how a division runs its micro-batches. Each repeat is then such a group,
  // enqueued before the device begins with it (Device::TimeEnqueued), and
  // counts its mean.
  Nanoseconds group_time = std::chrono::milliseconds(3);
  // Enough repeats when half the distance of their middle quartiles is no more
  // than this part of their median.
  double target_spread = 0.01;
  // A repeat that is off their median by more than this part of it, and by
  // more than five times the spread, is an outlier: something came between. It
  // is taken back and measured again, so often for one algorithm; what is then
  // still off stays. A single repeat is one if it took longer than the warm-up
  // by this part.
  double outlier = 0.10;
  int max_outliers = 3;
  // For one algorithm: no repeat is begun after so long, and one whose single
  // run would take longer is dropped.
  Nanoseconds time_limit = std::chrono::seconds(2);
  double hopeless_factor = 20.0;
  // Algorithms that need more are left out.
  Bytes max_workspace = Bytes::Max();
  // Runs take turns over operands of so many times the device's cache
  // (Device::cache), a GiB and 1/32 of its memory at most; of fewer
  // where memory is short. 0: each run has the same ones.
  double cold = 2.0;
};

// How measurements of `device` are made, as part of what they are true under
// (DeviceInfo::driver): "cold operands", or nothing where each run has the same
// ones. Another text than that of an earlier version makes its points stale.
std::string MethodText(const Device& device, const MeasureOptions& options);

// Told of every algorithm the device lists: its point, or why it has none.
//   kResourceExhausted  more workspace than allowed, or than could be had
//   kDeadlineExceeded   dropped as too slow; a last resort that is not needed
//   others              what the device reported when it ran
using MeasureProgress =
    std::function<void(const Candidate&, const Result<MeasuredPoint>&)>;

// Measures on one device, keeping its buffers from one problem to the next:
// operands, and one workspace, which micro-batches share as well. The filter
// gradient is measured adding to its result (beta 1), as all but the first of
// several micro-batches run; the others replace it.
class MeasureBench {
 public:
  // `device` must outlive the bench.
  explicit MeasureBench(Device& device) : device_(device), operands_(device) {}

  // The algorithms of `problem` at `batch`, in the order in which the device
  // lists them. An algorithm that fails is left out and reported, as long as
  // the device goes on working.
  //
  // kInvalidArgument if an option is out of range; kCancelled once `stop` is
  // requested (at the end of a run, never within one); what ListAlgorithms
  // reports; what the device reports when it is broken, or when every
  // algorithm failed.
  Result<std::vector<MeasuredPoint>> Measure(const ConvProblem& problem,
                                             BatchSize batch,
                                             const MeasureOptions& options,
                                             const std::stop_token& stop,
                                             const MeasureProgress& progress);

  // One algorithm of them alone. `rivals` are points of `batch` images by which
  // it may turn out hopeless. kResourceExhausted, kDeadlineExceeded and what
  // the device reports, as MeasureProgress is told; kDataLoss if the device is
  // broken.
  Result<MeasuredPoint> MeasureAlgorithm(const ConvProblem& problem,
                                         BatchSize batch,
                                         const Candidate& candidate,
                                         const MeasureOptions& options,
                                         std::vector<MeasuredPoint> rivals,
                                         const std::stop_token& stop);

  // How long the device has been running for all measurements so far.
  Nanoseconds spent() const { return spent_; }

 private:
  struct Target;  // what is being measured, and the best of it so far
  // One algorithm ready to run, its workspace allocated.
  struct Ready;

  Result<MeasuredPoint> MeasureOne(const Target& target,
                                   const Candidate& candidate);
  // For `batch` images, which are no more than the target's.
  // kResourceExhausted if it needs more workspace than was listed.
  Result<Ready> MakeReady(const Target& target, const ConvProblem& problem,
                          BatchSize batch, const Candidate& candidate);
  Status Enqueue(Ready& ready);
  // The time of a run that may load code, and wait for it.
  Result<Nanoseconds> RunFirst(Ready& ready);
  // The mean times of so many runs back to back, of what has run before.
  Result<Device::EnqueuedTime> Run(Ready& ready, std::int64_t runs);
  // From runs of few images: how long the whole batch may take, 0 if that is
  // not in doubt.
  Result<Nanoseconds> Estimate(const Target& target, const Candidate& candidate,
                               Nanoseconds allowed);
  // The same of a last resort, from one image and a filter of each group.
  Result<Nanoseconds> EstimateFromOneFilter(const Target& target,
                                            const Candidate& candidate,
                                            Nanoseconds allowed);
  // Of as many runs as there is memory for.
  Status PrepareOperands(const Target& target);
  // For a workspace beside the operands, of which it leaves one run's if there
  // is not enough memory for more.
  Status MakeRoom(const Target& target, Bytes workspace);

  Device& device_;
  OperandRing operands_;
  DeviceBuffer workspace_;
  Nanoseconds spent_{0};
};

// The same with buffers of its own.
Result<std::vector<MeasuredPoint>> MeasureProblem(
    Device& device, const ConvProblem& problem, BatchSize batch,
    const MeasureOptions& options, const std::stop_token& stop,
    const MeasureProgress& progress = {});

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_MEASURE_MEASURE_H_
