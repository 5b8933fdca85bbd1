#ifndef UCUDNN_COORDINATOR_JOBS_LOST_RANKS_H_
#define UCUDNN_COORDINATOR_JOBS_LOST_RANKS_H_

// Which ranks of running jobs stopped reporting although others of their job
// report, on this process's monotonic clock (liveness.h).

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/agents/liveness.h"
#include "coordinator/jobs/job_store.h"

namespace ucudnn {

struct RankNews {
  std::set<std::int64_t> lost;
  std::set<std::int64_t> back;  // lost before, and report again
};

// Not thread-safe.
class LostRanks {
 public:
  // By job, the ranks that have been silent for longer than the timeout, while
  // another of the job was heard of within half of it: a job that ends falls
  // silent at once, and is not a job with lost ranks. A rank that never
  // reported cannot be lost. One that reports again is told as back until it is
  // settled. To be called at least four times per timeout.
  std::map<std::string, RankNews> Find(const std::vector<RankPulse>& pulses,
                                       std::int64_t steady_ms,
                                       std::int64_t timeout_ms);
  // The rank is as if it had never been lost.
  void Settle(const std::string& job, std::int64_t rank);

 private:
  Liveness for_timeout_;
  Liveness for_half_;
  // The pulses of lost ranks when they were found, by job and rank.
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> once_lost_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_JOBS_LOST_RANKS_H_
