#include "coordinator/agents/liveness.h"

#include <algorithm>
#include <utility>

namespace ucudnn {

std::vector<Pulse> Liveness::Silent(const std::vector<Pulse>& pulses,
                                    std::int64_t steady_ms,
                                    std::int64_t timeout_ms, bool refused) {
  if (!first_ms_) first_ms_ = steady_ms;
  const bool all_return = steady_ms - *first_ms_ <= return_ms_;
  // Time in which nobody looked, beyond what is usual, or listened.
  const std::int64_t missed =
      std::max<std::int64_t>(steady_ms - looked_ms_.value_or(steady_ms) -
                                 (refused ? 0 : timeout_ms / 2),
                             0);
  looked_ms_ = steady_ms;
  std::vector<Pulse> silent;
  std::map<std::string, Heard> heard;
  for (const Pulse& pulse : pulses) {
    Heard now{pulse.beats, steady_ms};
    const auto before = heard_.find(pulse.id);
    if (before != heard_.end() && before->second.beats == pulse.beats) {
      now.steady_ms = before->second.steady_ms + missed;
    }
    if (!all_return && steady_ms - now.steady_ms > timeout_ms) {
      silent.push_back(pulse);
    }
    heard.emplace(pulse.id, now);
  }
  heard_ = std::move(heard);
  return silent;
}

}  // namespace ucudnn
