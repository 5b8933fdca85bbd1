#ifndef UCUDNN_DEVICE_DEVICE_H_
#define UCUDNN_DEVICE_DEVICE_H_

// The port to one device: it lists the algorithms that solve a convolution of a
// batch with their workspaces, runs one of them, and times it. Backends: cuDNN
// (device/cudnn) and oneDNN on CPUs (device/onednn). The agent measures through
// this port, the client library executes plans through it.
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
// A Device and the objects it made belong to one thread at a time. The objects
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
  // implementations are: measured only if no other one fits.
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
  friend bool operator==(const ConvArgs&, const ConvArgs&) = default;
};

// One algorithm prepared for one problem and batch.
class Convolution {
 public:
  virtual ~Convolution() = default;
  // What Run needs, whatever alpha and beta; equals what ListAlgorithms listed.
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
  // Moves the event to the end of what is enqueued now. Call it before the
  // other functions.
  virtual Status Set() = 0;
  // Whether the device has reached it, or the error that came before it; does
  // not wait.
  virtual Result<bool> Reached() = 0;
  // The time on the device from `start`, an event of the same device, to this
  // one; both have been reached.
  virtual Result<Nanoseconds> Since(const Event& start) const = 0;
};

// Work that Device::Capture recorded. Enqueueing it costs the host
// microseconds, however much work it is.
class CapturedWork {
 public:
  virtual ~CapturedWork() = default;
  // Enqueues the work in the device's order of work, with the pointers and
  // scalars it was captured with; does not allocate. On failure nothing is
  // enqueued.
  virtual Status Enqueue() = 0;
  // The device memory that capturing took, as far as the device reports it.
  virtual Bytes memory() const = 0;
};

// A part of what is captured, and the earlier parts that it must follow, by
// their places in the list.
struct CapturePart {
  std::function<Status()> work;
  std::vector<std::size_t> after = {};
};

// Copies between host and device beside the device's order of work, one after
// the other; those of two queues run at once if the device can do that. Fastest
// with host memory of AllocateHost. Memory that is being copied must stay.
class CopyQueue {
 public:
  virtual ~CopyQueue() = default;
  // Both enqueue and return.
  virtual Status Upload(void* device, const void* host, Bytes size) = 0;
  virtual Status Download(void* host, const void* device, Bytes size) = 0;
  // Moves an event of the device to the end of what is enqueued here now.
  virtual Status Set(Event& event) = 0;
  // What is enqueued from now on starts once the event, where it is now, has
  // been reached. Does not make the host wait.
  virtual Status WaitFor(Event& event) = 0;
  // Waits until all enqueued copies are done; returns their error, if any.
  virtual Status Synchronize() = 0;
  // The CUstream that copies are enqueued in; null if there is none.
  virtual void* stream() { return nullptr; }
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;

  // The size of the last-level cache, where the operands of the previous short
  // run may still be; 0 if unknown. Constant.
  virtual Bytes cache() const { return Bytes(); }

  // Every algorithm that solves `problem` for `batch` images, in a stable
  // order. Costs no time on the device. An algorithm is listed only if Prepare
  // accepts it. kUnimplemented if the device does not support the problem.
  virtual Result<std::vector<Candidate>> ListAlgorithms(
      const ConvProblem& problem, BatchSize batch) = 0;

  // The result of ListAlgorithms, in the order in which the device would choose
  // without measurements: as listed, unless it has heuristics. Stable; costs no
  // time on the device.
  virtual Result<std::vector<Candidate>> SuggestAlgorithms(
      const ConvProblem& problem, BatchSize batch) {
    return ListAlgorithms(problem, batch);
  }

  // The results of ListAlgorithms for the batches in their order, sooner: from
  // several threads, and perhaps with algorithms that Prepare then refuses.
  virtual std::vector<Result<std::vector<Candidate>>> ListAlgorithmsOfEach(
      const ConvProblem& problem, std::span<const BatchSize> batches);

  // kNotFound if the algorithm does not solve the problem for this batch.
  virtual Result<std::unique_ptr<Convolution>> Prepare(
      const ConvProblem& problem, BatchSize batch,
      const Algorithm& algorithm) = 0;

  // Aligned to at least 256 bytes; kResourceExhausted if there is not enough.
  virtual Result<DeviceBuffer> Allocate(Bytes size) = 0;
  // Host memory that copies to and from the device fastest; by default any.
  virtual Result<DeviceBuffer> AllocateHost(Bytes size);
  virtual Status Upload(void* device, const void* host, Bytes size) = 0;
  virtual Status Download(void* host, const void* device, Bytes size) = 0;
  // By default copies on a thread of the queue's own, for devices whose memory
  // is the host's.
  virtual Result<std::unique_ptr<CopyQueue>> MakeCopyQueue();
  // Sets each byte, in the device's order of work.
  virtual Status Fill(void* device, unsigned char byte, Bytes size) = 0;
  // Multiplies `count` floats by `factor`, in the device's order of work. It
  // stands for all operators that are limited by memory: it reads and writes
  // each value once. By default a loop on the host.
  virtual Status Scale(float* device, std::int64_t count, float factor);

  // The time on the device between the first and the last thing that `work`
  // enqueues; returns when it is done.
  virtual Result<Nanoseconds> Time(const std::function<Status()>& work) = 0;
  struct EnqueuedTime {
    Nanoseconds device{0};
    // The host's time to enqueue the work; 0 if the host computes itself, or
    // had to wait for the device.
    Nanoseconds host{0};
  };
  // The same, with all of `work` enqueued before the device begins: its time
  // within a sequence of work that is enqueued far ahead. `work` has run before
  // and does not wait for the device.
  virtual Result<EnqueuedTime> TimeEnqueued(
      const std::function<Status()>& work) {
    UCUDNN_ASSIGN_OR_RETURN(const Nanoseconds time, Time(work));
    return EnqueuedTime{.device = time};
  }
  // Whether the device can capture work at all. Constant.
  virtual bool can_capture() const { return false; }
  // Whether captured parts that do not follow each other may run at once. If
  // not, they run in their order. Constant.
  virtual bool can_fork() const { return false; }
  // Records what the parts enqueue, without running it. They have run before
  // with the same convolutions and do nothing but enqueue. Takes milliseconds
  // of host time. `replaced`, if any, is captured work that is no longer
  // needed, whose memory is reused if possible. kUnimplemented if the device
  // cannot capture; the errors of the parts; kResourceExhausted without memory
  // for it. After a failure the device works as before.
  virtual Result<std::unique_ptr<CapturedWork>> CaptureParts(
      std::span<const CapturePart> parts,
      std::unique_ptr<CapturedWork> replaced = nullptr);
  // The same for one part.
  Result<std::unique_ptr<CapturedWork>> Capture(
      const std::function<Status()>& work,
      std::unique_ptr<CapturedWork> replaced = nullptr) {
    const CapturePart whole = {work};
    return CaptureParts({&whole, 1}, std::move(replaced));
  }
  // By default an event whose Set waits for the device and records the time.
  virtual Result<std::unique_ptr<Event>> MakeEvent();
  // Work that is enqueued from now on starts once an event of the device, where
  // it is now in a copy queue, has been reached. By default the host waits.
  virtual Status WaitFor(Event& event);
  // Waits until all enqueued work is done; returns its error, if any.
  virtual Status Synchronize() = 0;
  // The CUstream that work is enqueued in; null if there is none.
  virtual void* stream() { return nullptr; }

  // Who else is using the device, for people; empty if nobody is. The agent
  // does not measure meanwhile.
  virtual std::string BusyWith() { return {}; }
};

// Uploads `pattern`, which is not empty, over and over until the buffer is
// full.
Status UploadRepeated(Device& device, const DeviceBuffer& buffer,
                      std::span<const char> pattern);

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_DEVICE_H_
