#ifndef UCUDNN_COORDINATOR_AGENTS_LIVENESS_H_
#define UCUDNN_COORDINATOR_AGENTS_LIVENESS_H_

// Who has been silent for how long, as this process has seen it on its own
// monotonic clock: no wall clock decides who is lost. Whoever was heard of
// before this process started, or while it could not look or listen, gets the
// whole timeout from then on.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/store/pulse.h"

namespace ucudnn {

// Not thread-safe.
class Liveness {
 public:
  // For so long after the first look nobody is silent: agents that return all
  // at once, over TLS, may be heard of and then not for a while.
  explicit Liveness(std::int64_t return_ms = 0) : return_ms_(return_ms) {}

  // Takes note of all pulses at this moment; returns those that have not
  // changed for longer than the timeout. To be called several times per
  // timeout: longer gaps do not count as silence of others, nor does the time
  // since the last look if pulses were `refused` in it. O(n log n).
  std::vector<Pulse> Silent(const std::vector<Pulse>& pulses,
                            std::int64_t steady_ms, std::int64_t timeout_ms,
                            bool refused = false);

 private:
  struct Heard {
    std::int64_t beats;
    std::int64_t steady_ms;
  };

  std::int64_t return_ms_;
  std::optional<std::int64_t> first_ms_;
  std::optional<std::int64_t> looked_ms_;
  std::map<std::string, Heard> heard_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_AGENTS_LIVENESS_H_
