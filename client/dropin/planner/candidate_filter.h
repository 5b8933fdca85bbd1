#ifndef UCUDNN_CLIENT_DROPIN_PLANNER_CANDIDATE_FILTER_H_
#define UCUDNN_CLIENT_DROPIN_PLANNER_CANDIDATE_FILTER_H_

// A device that hides some of its algorithms.

#include <cstddef>
#include <functional>
#include <span>
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
  // Lists as the device does, so on several threads if that has them; filters
  // one list after the other.
  std::vector<Result<std::vector<Candidate>>> ListAlgorithmsOfEach(
      const ConvProblem& problem, std::span<const BatchSize> batches) override {
    auto lists = device_.ListAlgorithmsOfEach(problem, batches);
    for (std::size_t i = 0; i < lists.size(); ++i) {
      if (!lists[i]) continue;
      if (Status kept = filter_(batches[i], &*lists[i]); !kept) {
        lists[i] = tl::unexpected<Error>(std::move(kept).error());
      }
    }
    return lists;
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
