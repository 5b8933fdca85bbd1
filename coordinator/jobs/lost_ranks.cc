#include "coordinator/jobs/lost_ranks.h"

#include <fmt/format.h>

namespace ucudnn {
namespace {

std::string IdOf(const RankPulse& pulse) {
  return fmt::format("{} {}", pulse.rank, pulse.job);
}

std::set<std::string> IdsOf(const std::vector<Pulse>& pulses) {
  std::set<std::string> ids;
  for (const Pulse& pulse : pulses) ids.insert(pulse.id);
  return ids;
}

}  // namespace

std::map<std::string, RankNews> LostRanks::Find(
    const std::vector<RankPulse>& pulses, std::int64_t steady_ms,
    std::int64_t timeout_ms) {
  std::vector<Pulse> all;
  for (const RankPulse& pulse : pulses) {
    all.push_back({IdOf(pulse), pulse.beats});
  }
  const auto silent = IdsOf(for_timeout_.Silent(all, steady_ms, timeout_ms));
  const auto quiet = IdsOf(for_half_.Silent(all, steady_ms, timeout_ms / 2));
  std::set<std::string> heard;  // jobs
  for (const RankPulse& pulse : pulses) {
    if (!quiet.contains(IdOf(pulse)) && pulse.beats > 0) {
      heard.insert(pulse.job);
    }
  }
  std::map<std::string, RankNews> news;
  decltype(once_lost_) once_lost;
  for (const RankPulse& pulse : pulses) {
    const auto key = std::pair(pulse.job, pulse.rank);
    const auto before = once_lost_.find(key);
    if (silent.contains(IdOf(pulse)) && pulse.beats > 0 &&
        heard.contains(pulse.job)) {
      news[pulse.job].lost.insert(pulse.rank);
      once_lost[key] = pulse.beats;
    } else if (before != once_lost_.end()) {
      once_lost.insert(*before);
      if (pulse.beats > before->second) {
        news[pulse.job].back.insert(pulse.rank);
      }
    }
  }
  once_lost_ = std::move(once_lost);
  return news;
}

void LostRanks::Settle(const std::string& job, std::int64_t rank) {
  once_lost_.erase({job, rank});
}

}  // namespace ucudnn
