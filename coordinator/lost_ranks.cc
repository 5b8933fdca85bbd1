#include "coordinator/lost_ranks.h"

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

std::map<std::string, std::set<std::int64_t>> LostRanks::Find(
    const std::vector<RankPulse>& pulses, std::int64_t steady_ms,
    std::int64_t timeout_ms) {
  std::vector<Pulse> all;
  for (const RankPulse& pulse : pulses) {
    all.push_back({IdOf(pulse), pulse.beats});
  }
  const auto silent = IdsOf(for_timeout_.Silent(all, steady_ms, timeout_ms));
  const auto quiet = IdsOf(for_half_.Silent(all, steady_ms, timeout_ms / 2));
  std::map<std::string, std::set<std::int64_t>> lost;
  std::set<std::string> heard;  // jobs
  for (const RankPulse& pulse : pulses) {
    if (!quiet.contains(IdOf(pulse)) && pulse.beats > 0) {
      heard.insert(pulse.job);
    } else if (silent.contains(IdOf(pulse)) && pulse.beats > 0) {
      lost[pulse.job].insert(pulse.rank);
    }
  }
  std::erase_if(lost,
                [&](const auto& of) { return !heard.contains(of.first); });
  return lost;
}

}  // namespace ucudnn
