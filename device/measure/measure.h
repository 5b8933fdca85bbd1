#ifndef UCUDNN_DEVICE_MEASURE_MEASURE_H_
#define UCUDNN_DEVICE_MEASURE_MEASURE_H_

// Measures how long each algorithm of a convolution takes on a device: a
// warm-up, then repeats until their median is settled.
//
// Little time is spent on algorithms that cannot matter. An algorithm that is
// `hopeless_factor` slower than another one with no more workspace is dropped;
// its time is first estimated from one image and from four, so that a run of
// minutes never starts. An algorithm that is as slow but needs less workspace
// than the fast ones is the only choice when memory is short: it is measured
// once. A last resort (Candidate::last_resort) is skipped if another algorithm
// fits; if none does, its time is first estimated from a single filter of each
// group, since even one image may take it half a minute.
//
// Short runs are captured and replayed, as plans run (docs/adr/0024), where the
// device can; otherwise they are enqueued one by one. Runs do not find their
// operands in the device's cache, since micro-batches of a job rarely do
// (device/measure/operand_ring.h, docs/adr/0016).

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/profile.h"
#include "base/result.h"
#include "device/accuracy.h"
#include "device/device.h"
#include "device/measure/operand_ring.h"

namespace ucudnn {

struct MeasureOptions {
  // Timed runs of one algorithm, after one run to warm up.
  int min_repeats = 3;
  int max_repeats = 30;
  // Runs shorter than this are timed in groups, back to back, as a division
  // runs its micro-batches. Each repeat is then the mean of such a group,
  // captured as one graph, or enqueued before the device begins with it
  // (Device::TimeEnqueued).
  Nanoseconds group_time = std::chrono::milliseconds(3);
  // Enough repeats once half their interquartile range is at most this fraction
  // of their median.
  double target_spread = 0.01;
  // A repeat that differs from the median by more than this fraction of it, and
  // by more than five times the spread, is an outlier: something interfered. It
  // is discarded and measured again, up to max_outliers times for one
  // algorithm; later outliers stay. A single repeat is an outlier if it took
  // longer than the warm-up by this fraction.
  double outlier = 0.10;
  int max_outliers = 3;
  // For one algorithm: no repeat starts after this time, and an algorithm whose
  // single run would take longer is dropped.
  Nanoseconds time_limit = std::chrono::seconds(2);
  double hopeless_factor = 20.0;
  // Algorithms that need more workspace are left out.
  Bytes max_workspace = Bytes::Max();
  // The beta of all runs: 1 adds to the output, as where the gradients of two
  // branches meet. Absent: 0, and filter gradients are measured with 1 too, as
  // the first micro-batch and the others run (MeasuredPoint::adding).
  std::optional<float> beta = {};
  // Runs cycle over operands of this many times the device's cache
  // (Device::cache), but at most 1 GiB and 1/32 of its memory, and less if
  // memory is short. 0: all runs use the same operands.
  double cold = 2.0;
};

// The measuring method, as part of a measurement's conditions
// (DeviceInfo::driver), such as "cold operands, replayed, two streams, both
// betas": without the first if the device has no cache, without the second and
// third if it captures no work. A change of this text makes older points stale.
std::string MethodText(const Device& device, const MeasureOptions& options);

// Called for every algorithm the device lists, with its point or the reason why
// it has none.
//   kResourceExhausted  more workspace than allowed, or than could be had
//   kDeadlineExceeded   dropped as too slow; a last resort that is not needed
//   others              what the device reported when it ran
using MeasureProgress =
    std::function<void(const Candidate&, const Result<MeasuredPoint>&)>;

// Measures on one device, keeping its buffers from one problem to the next:
// operands, and one workspace, as micro-batches also share one.
class MeasureBench {
 public:
  // `device` must outlive the bench.
  explicit MeasureBench(Device& device) : device_(device), operands_(device) {}

  // The algorithms of `problem` at `batch`, in the order in which the device
  // lists them. An algorithm that fails is left out and reported, as long as
  // the device keeps working.
  //
  // kInvalidArgument if an option is out of range; kCancelled once `stop` is
  // requested (between runs, never within one); the errors of ListAlgorithms;
  // the device's error if it is broken, or if every algorithm failed.
  Result<std::vector<MeasuredPoint>> Measure(
      const ConvProblem& problem, BatchSize batch,
      const MeasureOptions& options, const std::stop_token& stop,
      const MeasureProgress& progress = {});

  // A single algorithm. `rivals` are points of `batch` images that may show it
  // to be hopeless. kResourceExhausted, kDeadlineExceeded and the device's
  // errors, as for MeasureProgress; kDataLoss if the device is broken.
  Result<MeasuredPoint> MeasureAlgorithm(const ConvProblem& problem,
                                         BatchSize batch,
                                         const Candidate& candidate,
                                         const MeasureOptions& options,
                                         std::vector<MeasuredPoint> rivals,
                                         const std::stop_token& stop);

  // The time of one run once runs have followed each other for `load` without a
  // pause: the median over the last tenth of it. A device's clocks fall within
  // the first tenths of a second, if they do. kCancelled; the device's errors.
  Result<Nanoseconds> TimeUnderLoad(const ConvProblem& problem, BatchSize batch,
                                    const Candidate& candidate,
                                    Nanoseconds load,
                                    const std::stop_token& stop);

  // The device's total running time for all measurements so far, without what
  // tells the errors.
  Nanoseconds spent() const { return spent_; }
  // What is known of the algorithms' errors.
  AlgorithmErrors& errors() { return errors_; }

 private:
  struct Target;  // what is measured, and the points so far
  // One algorithm ready to run, its workspace allocated.
  struct Ready;
  // What repeated runs took.
  struct Timing;

  Result<MeasuredPoint> MeasureOne(const Target& target,
                                   const Candidate& candidate);
  // Repeats runs until their median is settled, as the options say.
  Result<Timing> TimeRuns(const Target& target, Ready& ready);
  // Prepares `candidate` for `batch` images, at most the target's.
  // kResourceExhausted if it needs more workspace than was listed.
  Result<Ready> MakeReady(const Target& target, const ConvProblem& problem,
                          BatchSize batch, const Candidate& candidate);
  // So many runs.
  Status Enqueue(Ready& ready, std::int64_t runs);
  // The time of a first run, which may load code.
  Result<Nanoseconds> RunFirst(Ready& ready);
  // The mean times of `runs` runs back to back, enqueued one by one; `ready`
  // has run before.
  Result<Device::EnqueuedTime> Run(Ready& ready, std::int64_t runs);
  // The mean time of `runs` runs, captured and replayed. The errors of
  // Device::Capture.
  Result<Nanoseconds> Replay(Ready& ready, std::int64_t runs);
  // Replayed if possible, otherwise enqueued.
  Result<Device::EnqueuedTime> RunGroup(Ready& ready, std::int64_t runs);
  // An estimate of the whole batch's time from runs of few images; 0 if the
  // time is certainly allowed or cannot be estimated.
  Result<Nanoseconds> Estimate(const Target& target, const Candidate& candidate,
                               Nanoseconds allowed);
  // The same for a last resort, from one image and one filter of each group.
  Result<Nanoseconds> EstimateFromOneFilter(const Target& target,
                                            const Candidate& candidate,
                                            Nanoseconds allowed);
  // Prepares operands of as many runs as there is memory for.
  Status PrepareOperands(const Target& target);
  // Makes room for a workspace beside the operands, down to one run's operands
  // if memory is short.
  Status MakeRoom(const Target& target, Bytes workspace);

  Device& device_;
  OperandRing operands_;
  DeviceBuffer workspace_;
  Nanoseconds spent_{0};
  AlgorithmErrors errors_;
};

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_MEASURE_MEASURE_H_
