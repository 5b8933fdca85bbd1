#ifndef UCUDNN_TESTS_SUPPORT_FAILING_DEVICE_H_
#define UCUDNN_TESTS_SUPPORT_FAILING_DEVICE_H_

// A real device that fails on demand, as GPUs do: memory runs out, or the
// device is lost and every later call fails.

#include <atomic>
#include <memory>
#include <utility>

#include "device/forwarding_device.h"

namespace ucudnn::test {

class FailingDevice final : public ForwardingDevice {
 public:
  explicit FailingDevice(std::unique_ptr<Device> device)
      : ForwardingDevice(*device), owned_(std::move(device)) {}

  // Set by the test, from any thread.
  std::atomic<std::int64_t> memory{std::int64_t{1}
                                   << 60};  // the limit of one buffer
  // Timings until the device is lost; negative: never.
  std::atomic<int> timings_left{-1};
  int timings() const { return timings_; }

  Result<std::vector<Candidate>> ListAlgorithms(const ConvProblem& problem,
                                                BatchSize batch) override {
    UCUDNN_RETURN_IF_ERROR(Alive());
    return ForwardingDevice::ListAlgorithms(problem, batch);
  }
  Result<std::unique_ptr<Convolution>> Prepare(
      const ConvProblem& problem, BatchSize batch,
      const Algorithm& algorithm) override {
    UCUDNN_RETURN_IF_ERROR(Alive());
    return ForwardingDevice::Prepare(problem, batch, algorithm);
  }
  Result<DeviceBuffer> Allocate(Bytes size) override {
    UCUDNN_RETURN_IF_ERROR(Alive());
    if (size.count() > memory) {
      return Fail(Code::kResourceExhausted, "{}: {} requested, {} free",
                  info().id, HumanBytes(size), HumanBytes(Bytes(memory)));
    }
    return ForwardingDevice::Allocate(size);
  }
  Status Upload(void* to, const void* from, Bytes size) override {
    UCUDNN_RETURN_IF_ERROR(Alive());
    return ForwardingDevice::Upload(to, from, size);
  }
  Status Download(void* to, const void* from, Bytes size) override {
    UCUDNN_RETURN_IF_ERROR(Alive());
    return ForwardingDevice::Download(to, from, size);
  }
  Status Fill(void* to, unsigned char byte, Bytes size) override {
    UCUDNN_RETURN_IF_ERROR(Alive());
    return ForwardingDevice::Fill(to, byte, size);
  }
  Result<Nanoseconds> Time(const std::function<Status()>& work) override {
    if (timings_left > 0) --timings_left;
    UCUDNN_RETURN_IF_ERROR(Alive());
    ++timings_;
    return ForwardingDevice::Time(work);
  }
  Status Synchronize() override {
    UCUDNN_RETURN_IF_ERROR(Alive());
    return ForwardingDevice::Synchronize();
  }

 private:
  Status Alive() const {
    if (timings_left != 0) return {};
    return Fail(Code::kDataLoss, "{} is lost: it fell off the bus", info().id);
  }

  std::unique_ptr<Device> owned_;
  std::atomic<int> timings_{0};
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_SUPPORT_FAILING_DEVICE_H_
