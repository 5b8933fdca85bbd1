#ifndef UCUDNN_CLIENT_DROPIN_PLANNER_CANDIDATE_FILTER_H_
#define UCUDNN_CLIENT_DROPIN_PLANNER_CANDIDATE_FILTER_H_

// A device that hides some of its algorithms.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"

namespace ucudnn {

class CandidateFilter final : public Device {
 public:
  // Removes the algorithms to hide from the device's list for a batch size.
  using Filter =
      std::function<Status(BatchSize batch, std::vector<Candidate>* listed)>;

  // `device` outlives this.
  CandidateFilter(Device& device, Filter filter)
      : device_(device), filter_(std::move(filter)) {}

  const DeviceInfo& info() const override { return device_.info(); }
  Bytes cache() const override { return device_.cache(); }
  Result<std::vector<Candidate>> ListAlgorithms(const ConvProblem& problem,
                                                BatchSize batch) override {
    auto listed = device_.ListAlgorithms(problem, batch);
    if (listed) UCUDNN_RETURN_IF_ERROR(filter_(batch, &*listed));
    return listed;
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
  Result<Nanoseconds> Time(const std::function<Status()>& work) override {
    return device_.Time(work);
  }
  Result<EnqueuedTime> TimeEnqueued(
      const std::function<Status()>& work) override {
    return device_.TimeEnqueued(work);
  }
  Status Synchronize() override { return device_.Synchronize(); }
  std::string BusyWith() override { return device_.BusyWith(); }

 private:
  Device& device_;
  const Filter filter_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_PLANNER_CANDIDATE_FILTER_H_
