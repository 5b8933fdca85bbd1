#ifndef UCUDNN_COORDINATOR_LOST_RANKS_H_
#define UCUDNN_COORDINATOR_LOST_RANKS_H_

// Which ranks of running jobs stopped reporting although others of their job
// report, on this process's monotonic clock (liveness.h).

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/liveness.h"
#include "coordinator/store/jobs.h"

namespace ucudnn {

// Not thread-safe.
class LostRanks {
 public:
  // By job, the ranks that have been silent for longer than the timeout, while
  // another of the job was heard of within half of it: a job that ends falls
  // silent at once, and is not a job with lost ranks. A rank that never
  // reported cannot be lost. To be called at least four times per timeout.
  std::map<std::string, std::set<std::int64_t>> Find(
      const std::vector<RankPulse>& pulses, std::int64_t steady_ms,
      std::int64_t timeout_ms);

 private:
  Liveness for_timeout_;
  Liveness for_half_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_LOST_RANKS_H_
