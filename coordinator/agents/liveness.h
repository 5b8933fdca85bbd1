#ifndef UCUDNN_COORDINATOR_AGENTS_LIVENESS_H_
#define UCUDNN_COORDINATOR_AGENTS_LIVENESS_H_

// Who has been silent for how long, as this process has seen it on its own
// monotonic clock: no wall clock decides who is lost. Whoever was heard of
// before this process started, or while it could not look, gets the whole
// timeout from then on.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coordinator/store/pulse.h"

namespace ucudnn {

// Not thread-safe.
class Liveness {
 public:
  // Takes note of all pulses at this moment; returns those that have not
  // changed for longer than the timeout. To be called several times per
  // timeout: longer gaps do not count as silence of others. O(n log n).
  std::vector<Pulse> Silent(const std::vector<Pulse>& pulses,
                            std::int64_t steady_ms, std::int64_t timeout_ms);

 private:
  struct Heard {
    std::int64_t beats;
    std::int64_t steady_ms;
  };

  std::int64_t looked_ms_ = 0;
  std::map<std::string, Heard> heard_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_AGENTS_LIVENESS_H_
