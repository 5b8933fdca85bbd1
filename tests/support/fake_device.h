#ifndef UCUDNN_TESTS_SUPPORT_FAKE_DEVICE_H_
#define UCUDNN_TESTS_SUPPORT_FAKE_DEVICE_H_

// A device that computes nothing and records its calls, for tests of code that
// calls a device. The test sets its algorithms and its failures.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"

namespace ucudnn {

struct FakeAlgorithm {
  Algorithm algorithm;
  Bytes workspace_per_image;
  BatchSize max_batch = kMaxBatchSize;  // larger ones are not listed
  // Run fails after this many successful runs.
  int runs_before_failure = std::numeric_limits<int>::max();
  // The device's time for each run, and the host's to enqueue it.
  Nanoseconds time{1000};
  Nanoseconds enqueue{0};
  bool last_resort = false;
};

class FakeDevice final : public Device {
 public:
  struct RunCall {
    ConvProblem problem;
    BatchSize batch;
    std::string algorithm;
    ConvArgs args;
    const void* workspace = nullptr;
    Nanoseconds time{0};
    Nanoseconds enqueue{0};
  };

  explicit FakeDevice(std::vector<FakeAlgorithm> algorithms = {
                          {{"lavish", "", Precision::kFp32}, 100_B},
                          {{"frugal", "", Precision::kFp32}, 0_B}}) {
    algorithms_ = std::move(algorithms);
    info_.id = "fake-0";
    info_.kind = {"Fake", 1, 1_GiB, "fake-1.0"};
  }

  // For the test to set and read.
  DeviceInfo& mutable_info() { return info_; }
  std::vector<FakeAlgorithm>& algorithms() { return algorithms_; }
  std::vector<RunCall>& runs() { return runs_; }
  // The runs within Time.
  const std::vector<RunCall>& timed_runs() const { return timed_runs_; }
  const std::vector<Bytes>& allocations() const { return allocations_; }
  void clear_allocations() { allocations_.clear(); }
  int prepared() const { return prepared_; }
  int timed_enqueued() const { return timed_enqueued_; }
  void set_memory(Bytes memory) { memory_ = memory; }  // of one buffer
  void set_total_memory(Bytes memory) { free_ = memory; }
  void set_cache(Bytes cache) { cache_ = cache; }
  // From now on work can be captured, at `memory` for each run in it.
  void set_graphs(Bytes memory) { graph_memory_ = memory; }
  void set_capture_error(std::optional<Error> error) {
    capture_error_ = std::move(error);
  }
  int captures() const { return captures_; }
  int updates() const { return updates_; }  // captures that replaced another
  int replays() const { return replays_; }
  // The algorithm that the device would choose without measurements.
  void set_suggestion(std::string name) { suggestion_ = std::move(name); }

  const DeviceInfo& info() const override { return info_; }
  Bytes cache() const override { return cache_; }

  Result<std::vector<Candidate>> ListAlgorithms(const ConvProblem&,
                                                BatchSize batch) override {
    std::vector<Candidate> candidates;
    for (const FakeAlgorithm& a : algorithms_) {
      if (batch > a.max_batch) continue;
      candidates.push_back(
          {a.algorithm, a.workspace_per_image * batch.count(), a.last_resort});
    }
    return candidates;
  }

  Result<std::vector<Candidate>> SuggestAlgorithms(const ConvProblem& problem,
                                                   BatchSize batch) override {
    UCUDNN_ASSIGN_OR_RETURN(auto candidates, ListAlgorithms(problem, batch));
    std::stable_partition(
        candidates.begin(), candidates.end(),
        [&](const Candidate& c) { return c.algorithm.name == suggestion_; });
    return candidates;
  }

  Result<std::unique_ptr<Convolution>> Prepare(
      const ConvProblem& problem, BatchSize batch,
      const Algorithm& algorithm) override {
    for (FakeAlgorithm& a : algorithms_) {
      if (a.algorithm != algorithm || batch > a.max_batch) continue;
      ++prepared_;
      return std::make_unique<FakeConvolution>(*this, a, problem, batch);
    }
    return Fail(Code::kNotFound, "the fake device has no {} for {} images",
                algorithm.name, batch.count());
  }

  Result<DeviceBuffer> Allocate(Bytes size) override {
    if (size > std::min(memory_, free_)) {
      return Fail(Code::kResourceExhausted, "{} of memory; {} are requested",
                  FormatBytes(std::min(memory_, free_)), FormatBytes(size));
    }
    allocations_.push_back(size);
    free_ -= size;
    const auto rounded =
        static_cast<std::size_t>((size.count() + 255) / 256 * 256);
    return DeviceBuffer(
        std::aligned_alloc(256, std::max<std::size_t>(rounded, 256)), size,
        [this, size](void* data) {
          std::free(data);
          free_ += size;
        });
  }
  Status Upload(void* device, const void* host, Bytes size) override {
    std::memcpy(device, host, static_cast<std::size_t>(size.count()));
    return {};
  }
  Status Download(void* host, const void* device, Bytes size) override {
    std::memcpy(host, device, static_cast<std::size_t>(size.count()));
    return {};
  }
  Status Fill(void* device, unsigned char byte, Bytes size) override {
    std::memset(device, byte, static_cast<std::size_t>(size.count()));
    return {};
  }
  Result<Nanoseconds> Time(const std::function<Status()>& work) override {
    UCUDNN_ASSIGN_OR_RETURN(const EnqueuedTime time, Watch(work));
    return time.device;
  }
  Result<EnqueuedTime> TimeEnqueued(
      const std::function<Status()>& work) override {
    ++timed_enqueued_;
    return Watch(work);
  }
  Status Synchronize() override { return {}; }
  bool can_capture() const override { return graph_memory_.has_value(); }
  Result<std::unique_ptr<CapturedWork>> CaptureParts(
      std::span<const CapturePart> parts,
      std::unique_ptr<CapturedWork> replaced) override {
    if (!graph_memory_) return Device::CaptureParts(parts, std::move(replaced));
    const auto before = static_cast<std::ptrdiff_t>(runs_.size());
    Status enqueued;
    for (const CapturePart& part : parts) {
      if (enqueued) enqueued = part.work();
    }
    std::vector<RunCall> captured(runs_.begin() + before, runs_.end());
    runs_.erase(runs_.begin() + before, runs_.end());
    UCUDNN_RETURN_IF_ERROR(enqueued);
    if (capture_error_) return tl::unexpected<Error>(*capture_error_);
    ++captures_;
    if (replaced != nullptr) ++updates_;
    const Bytes memory = *graph_memory_ * std::ssize(captured);
    return std::make_unique<FakeCapturedWork>(*this, std::move(captured),
                                              memory);
  }

 private:
  class FakeCapturedWork final : public CapturedWork {
   public:
    FakeCapturedWork(FakeDevice& device, std::vector<RunCall> runs,
                     Bytes memory)
        : device_(device), runs_(std::move(runs)), memory_(memory) {}
    Status Enqueue() override {
      if (device_.capture_error_) {
        return tl::unexpected<Error>(*device_.capture_error_);
      }
      ++device_.replays_;
      for (const RunCall& run : runs_) device_.runs_.push_back(run);
      return {};
    }
    Bytes memory() const override { return memory_; }

   private:
    FakeDevice& device_;
    const std::vector<RunCall> runs_;
    const Bytes memory_;
  };

  Result<EnqueuedTime> Watch(const std::function<Status()>& work) {
    const std::size_t before = runs_.size();
    UCUDNN_RETURN_IF_ERROR(work());
    EnqueuedTime time;
    for (std::size_t i = before; i < runs_.size(); ++i) {
      timed_runs_.push_back(runs_[i]);
      time.device += runs_[i].time;
      time.host += runs_[i].enqueue;
    }
    return time;
  }

  class FakeConvolution final : public Convolution {
   public:
    FakeConvolution(FakeDevice& device, FakeAlgorithm& algorithm,
                    ConvProblem problem, BatchSize batch)
        : device_(device),
          algorithm_(algorithm),
          problem_(problem),
          batch_(batch) {}
    Bytes workspace() const override {
      return algorithm_.workspace_per_image * batch_.count();
    }
    Status Run(const ConvArgs& args, void* workspace,
               Bytes workspace_size) override {
      if (workspace_size < this->workspace()) {
        return Fail(Code::kInvalidArgument, "a workspace of {}; {} are needed",
                    workspace_size.count(), this->workspace().count());
      }
      if (algorithm_.runs_before_failure-- <= 0) {
        return Fail(Code::kInternal, "{} failed as told",
                    algorithm_.algorithm.name);
      }
      device_.runs_.push_back({problem_, batch_, algorithm_.algorithm.name,
                               args, workspace, algorithm_.time,
                               algorithm_.enqueue});
      return {};
    }

   private:
    FakeDevice& device_;
    FakeAlgorithm& algorithm_;
    ConvProblem problem_;
    BatchSize batch_;
  };

  DeviceInfo info_;
  std::vector<FakeAlgorithm> algorithms_;
  std::string suggestion_;
  std::vector<RunCall> runs_;
  std::vector<RunCall> timed_runs_;
  std::vector<Bytes> allocations_;
  Bytes memory_ = 1_GiB;
  Bytes free_ = Bytes::Max() / 2;
  Bytes cache_;
  int prepared_ = 0;
  int timed_enqueued_ = 0;
  std::optional<Bytes> graph_memory_;
  std::optional<Error> capture_error_;
  int captures_ = 0;
  int updates_ = 0;
  int replays_ = 0;
};

}  // namespace ucudnn

#endif  // UCUDNN_TESTS_SUPPORT_FAKE_DEVICE_H_
