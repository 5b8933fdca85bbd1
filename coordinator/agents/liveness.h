#ifndef UCUDNN_COORDINATOR_AGENTS_LIVENESS_H_
#define UCUDNN_COORDINATOR_AGENTS_LIVENESS_H_

// Who has been silent for how long, as this process has seen it on its own
// monotonic clock: no wall clock decides who is lost. Whoever was heard of
// before this process started, or while it could not look or listen, gets the
// whole timeout from then on. Many that fall silent together lost a coordinator
// or the network, or wait for each other's handshakes.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/store/pulse.h"

namespace ucudnn {

// Not thread-safe.
class Liveness {
 public:
  // For so long nobody is silent after the first look, nor once `many` were not
  // heard of for half of the timeout: agents that return all at once, over TLS,
  // may be heard of and then not for a while.
  explicit Liveness(
      std::int64_t return_ms = 0,
      std::int64_t many = std::numeric_limits<std::int64_t>::max())
      : return_ms_(return_ms), many_(many) {}

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
  std::int64_t many_;
  bool many_quiet_ = false;                   // at the last look
  std::optional<std::int64_t> returning_ms_;  // since then
  std::optional<std::int64_t> looked_ms_;
  std::map<std::string, Heard> heard_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_AGENTS_LIVENESS_H_
