#ifndef UCUDNN_CLIENT_DROPIN_PLANNER_CANDIDATE_FILTER_H_
#define UCUDNN_CLIENT_DROPIN_PLANNER_CANDIDATE_FILTER_H_

// A device that hides some of its algorithms.

#include <functional>
#include <utility>
#include <vector>

#include "device/forwarding_device.h"

namespace ucudnn {

class CandidateFilter final : public ForwardingDevice {
 public:
  // Removes the algorithms to hide from the device's list for a batch size.
  using Filter =
      std::function<Status(BatchSize batch, std::vector<Candidate>* listed)>;

  // `device` outlives this.
  CandidateFilter(Device& device, Filter filter)
      : ForwardingDevice(device), filter_(std::move(filter)) {}

  Result<std::vector<Candidate>> ListAlgorithms(const ConvProblem& problem,
                                                BatchSize batch) override {
    auto listed = device_.ListAlgorithms(problem, batch);
    if (listed) UCUDNN_RETURN_IF_ERROR(filter_(batch, &*listed));
    return listed;
  }
  Result<EnqueuedTime> TimeEnqueued(
      const std::function<Status()>& work) override {
    return device_.TimeEnqueued(work);
  }

 private:
  const Filter filter_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_PLANNER_CANDIDATE_FILTER_H_
