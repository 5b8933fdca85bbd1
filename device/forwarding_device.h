#ifndef UCUDNN_DEVICE_FORWARDING_DEVICE_H_
#define UCUDNN_DEVICE_FORWARDING_DEVICE_H_

// A device that passes its calls on to another one; subclasses change some.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"

namespace ucudnn {

// What Device implements by its other functions, such as SuggestAlgorithms and
// TimeEnqueued, is not forwarded, so it uses what the subclass overrides.
class ForwardingDevice : public Device {
 public:
  // `device` must outlive it.
  explicit ForwardingDevice(Device& device) : device_(device) {}

  const DeviceInfo& info() const override { return device_.info(); }
  Bytes cache() const override { return device_.cache(); }
  Result<std::vector<Candidate>> ListAlgorithms(const ConvProblem& problem,
                                                BatchSize batch) override {
    return device_.ListAlgorithms(problem, batch);
  }
  Result<std::unique_ptr<Convolution>> Prepare(
      const ConvProblem& problem, BatchSize batch,
      const Algorithm& algorithm) override {
    return device_.Prepare(problem, batch, algorithm);
  }
  Result<DeviceBuffer> Allocate(Bytes size) override {
    return device_.Allocate(size);
  }
  Status Upload(void* device, const void* host, Bytes size) override {
    return device_.Upload(device, host, size);
  }
  Status Download(void* host, const void* device, Bytes size) override {
    return device_.Download(host, device, size);
  }
  Status Fill(void* device, unsigned char byte, Bytes size) override {
    return device_.Fill(device, byte, size);
  }
  Result<std::unique_ptr<CopyQueue>> MakeCopyQueue() override {
    return device_.MakeCopyQueue();
  }
  Status Scale(float* device, std::int64_t count, float factor) override {
    return device_.Scale(device, count, factor);
  }
  Result<Nanoseconds> Time(const std::function<Status()>& work) override {
    return device_.Time(work);
  }
  bool can_capture() const override { return device_.can_capture(); }
  bool can_fork() const override { return device_.can_fork(); }
  Result<std::unique_ptr<CapturedWork>> CaptureParts(
      std::span<const CapturePart> parts,
      std::unique_ptr<CapturedWork> replaced) override {
    return device_.CaptureParts(parts, std::move(replaced));
  }
  Status Synchronize() override { return device_.Synchronize(); }
  std::string BusyWith() override { return device_.BusyWith(); }

 protected:
  Device& device_;
};

}  // namespace ucudnn

#endif  // UCUDNN_DEVICE_FORWARDING_DEVICE_H_
