#ifndef UCUDNN_DEVICE_DEVICE_H_
#define UCUDNN_DEVICE_DEVICE_H_

// What one device can do for us: say which algorithms solve a convolution of a
// batch and with how much workspace, run one of them, and time it. Backends:
// cuDNN (device/cudnn), oneDNN on CPUs (device/onednn), recorded profiles
// (device/recorded). The agent measures through this port, the client library
// executes plans through it.
//
//   UCUDNN_ASSIGN_OR_RETURN(auto candidates,
//                           device.ListAlgorithms(problem, batch));
//   UCUDNN_ASSIGN_OR_RETURN(auto conv,
//       device.Prepare(problem, batch, candidates[0].algorithm));
//   UCUDNN_ASSIGN_OR_RETURN(auto arena, device.Allocate(conv->workspace()));
//   conv->Run({.a = x, .b = w, .out = y}, arena.data(), arena.size());
//
// Tensors are packed in the problem's layout and precision; the batch is the
// outermost dimension, so a micro-batch is a pointer offset.
//
// A Device and what it made belong to one thread at a time. Objects it made
// must not outlive it.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/conv_problem.h"
#include "base/device_kind.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

struct DeviceInfo {
  std::string id;  // unique in the cluster: a GPU's UUID, "cpu-<agent>-<n>"
  DeviceKind kind;
  std::string driver;  // what else measurements are made under
};

// An algorithm that solves a problem for a batch, and the workspace it needs.
struct Candidate {
  Algorithm algorithm;
  Bytes workspace;
  // Slower than the others by orders of magnitude, as oneDNN's reference
  // implementations are: measured only where no other one fits.
  bool last_resort = false;
};

// Device memory, freed on destruction. Move-only.
class DeviceBuffer {
 public:
  using Free = std::function<void(void*)>;
  DeviceBuffer() = default;
  DeviceBuffer(void* data, Bytes size, Free free)
      : data_(data), size_(size), free_(std::move(free)) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { Reset(); }

  void* data() const { return data_; }
  Bytes size() const { return size_; }
  void Reset();

 private:
  void* data_ = nullptr;
  Bytes size_;
  Free free_;
};

// The operands of one execution; out = alpha * op(a, b) + beta * out.
//   forward:         a = input,  b = filter,          out = output
//   backward_data:   a = output gradient, b = filter, out = input gradient
//   backward_filter: a = input,  b = output gradient, out = filter gradient
// With beta == 0 the old contents of out are not read and may be NaN.
struct ConvArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;
  float alpha = 1.0F;
  float beta = 0.0F;
};

// One algorithm made ready for one problem and batch.
class Convolution {
 public:
  virtual ~Convolution() = default;
  // What Run needs, whatever alpha and beta; equals what ListAlgorithms told.
  virtual Bytes workspace() const = 0;
  // Enqueues the convolution in the device's order of work; pointers are to
  // device memory, the workspace aligned to 256 bytes, the operands to their
  // elements. Never writes outside of out and
  // [workspace, workspace + workspace()). kInvalidArgument if
  // `workspace_size` is less than workspace().
  virtual Status Run(const ConvArgs& args, void* workspace,
                     Bytes workspace_size) = 0;
};

// A point in a device's order of work: what was enqueued before it.
class Event {
 public:
  virtual ~Event() = default;
  // Moves the event to the end of what is enqueued now. Before the first time
  // the others are of no use.
  virtual Status Set() = 0;
  // Whether the device is past it, or what failed on the way; waits for
  // nothing.
  virtual Result<bool> Reached() = 0;
  // The time on the device from `start`, a event of the same device, to this;
  // both are reached.
  virtual Result<Nanoseconds> Since(const Event& start) const = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;

  // The last-level cache, which all that runs on the device shares, where the
  // operands of short runs may still lie from the run before; 0 where it is not
  // known. Always the same.
  virtual Bytes cache() const { return Bytes(); }

  // Every algorithm that solves `problem` for `batch` images, in a stable
  // order. Costs no time on the device. An algorithm is listed only if Prepare
  // accepts it. kUnimplemented if the device does not support the problem.
  virtual Result<std::vector<Candidate>> ListAlgorithms(
      const ConvProblem& problem, BatchSize batch) = 0;

  // What ListAlgorithms tells, in the order in which the device would take the
  // algorithms as long as nothing was measured: as listed, unless it has an
  // opinion. Stable; costs no time on the device.
  virtual Result<std::vector<Candidate>> SuggestAlgorithms(
      const ConvProblem& problem, BatchSize batch) {
    return ListAlgorithms(problem, batch);
  }

  // What ListAlgorithms tells, for each of the batches in their order; on
  // several threads where that is much work for the host.
  virtual std::vector<Result<std::vector<Candidate>>> ListAlgorithmsOfEach(
      const ConvProblem& problem, std::span<const BatchSize> batches);

  // kNotFound if the algorithm does not solve the problem for this batch.
  virtual Result<std::unique_ptr<Convolution>> Prepare(
      const ConvProblem& problem, BatchSize batch,
      const Algorithm& algorithm) = 0;

  // Aligned to at least 256 bytes; kResourceExhausted if there is not enough.
  virtual Result<DeviceBuffer> Allocate(Bytes size) = 0;
  // Memory of the host that copies to and from the device go fastest with; by
  // default any.
  virtual Result<DeviceBuffer> AllocateHost(Bytes size);
  virtual Status Upload(void* device, const void* host, Bytes size) = 0;
  virtual Status Download(void* host, const void* device, Bytes size) = 0;
  // Sets each byte, in the device's order of work.
  virtual Status Fill(void* device, unsigned char byte, Bytes size) = 0;

  // The time on the device between the first and the last thing that `work`
  // enqueues; returns when it is done.
  virtual Result<Nanoseconds> Time(const std::function<Status()>& work) = 0;
  struct EnqueuedTime {
    Nanoseconds device{0};
    // Of the host, to enqueue it; 0 where the host computes itself, and where
    // it had to wait for the device.
    Nanoseconds host{0};
  };
  // The same where the device begins once all of `work` is enqueued: what it
  // takes in a row of other work, whose enqueueing is far ahead. `work` has run
  // before and does not wait for the device.
  virtual Result<EnqueuedTime> TimeEnqueued(
      const std::function<Status()>& work) {
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, Time(work));
    return EnqueuedTime{.device = time};
  }
  // By default a event whose Set waits for the device, and notes the time.
  virtual Result<std::unique_ptr<Event>> MakeEvent();
  // Waits until all that was enqueued is done; reports what failed in it.
  virtual Status Synchronize() = 0;

  // Whose work the device is busy with besides ours, for people; empty if
  // nobody's. The agent does not measure meanwhile.
  virtual std::string BusyWith() { return {}; }
};

// Uploads `pattern`, which is not empty, over and over until the buffer is
// full.
Status UploadRepeated(Device& device, const DeviceBuffer& buffer,
                      std::span<const char> pattern);

// What the device would take for `problem` on `batch` images, undivided and
// unmeasured, with at most `limit` of workspace: the first of
// SuggestAlgorithms that fits. kFailedPrecondition, naming the smallest limit
// that would do, if none does; kUnimplemented if the device has none; what
// SuggestAlgorithms fails with otherwise.
Result<Candidate> SuggestWithin(Device& device, const ConvProblem& problem,
                                BatchSize batch, Bytes limit);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_DEVICE_H_
