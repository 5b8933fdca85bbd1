#include "coordinator/agents/liveness.h"

#include <algorithm>
#include <utility>

namespace ucudnn {

std::vector<Pulse> Liveness::Silent(const std::vector<Pulse>& pulses,
                                    std::int64_t steady_ms,
                                    std::int64_t timeout_ms, bool refused) {
  if (!returning_ms_) returning_ms_ = steady_ms;
  // Time in which nobody looked, beyond what is usual, or listened.
  const std::int64_t missed =
      std::max<std::int64_t>(steady_ms - looked_ms_.value_or(steady_ms) -
                                 (refused ? 0 : timeout_ms / 2),
                             0);
  looked_ms_ = steady_ms;
  std::vector<Pulse> silent;
  std::int64_t quiet = 0;
  std::map<std::string, Heard> heard;
  for (const Pulse& pulse : pulses) {
    Heard now{pulse.beats, steady_ms};
    const auto before = heard_.find(pulse.id);
    if (before != heard_.end() && before->second.beats == pulse.beats) {
      now.steady_ms = before->second.steady_ms + missed;
    }
    const std::int64_t silence = steady_ms - now.steady_ms;
    if (silence > timeout_ms) {
      silent.push_back(pulse);
    } else if (silence > timeout_ms / 2) {
      ++quiet;
    }
    heard.emplace(pulse.id, now);
  }
  heard_ = std::move(heard);
  const bool many_quiet = quiet >= many_;
  if (many_quiet && !many_quiet_) returning_ms_ = steady_ms;
  many_quiet_ = many_quiet;
  if (steady_ms - *returning_ms_ <= return_ms_) silent.clear();
  return silent;
}

}  // namespace ucudnn
