#include "coordinator/agents/heartbeats.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace ucudnn {
namespace {

// Other writers wait for a transaction; so many devices take some 50 ms.
constexpr std::size_t kDevicesAtOnce = 1'000;

// The first of the agents, as many as suit one transaction: up to the first
// that names an agent or a device again.
std::vector<AgentRegistration> Group(
    std::span<const AgentRegistration* const> agents) {
  std::vector<AgentRegistration> group;
  std::set<std::string_view> ids;
  std::set<std::string_view> devices;
  for (const AgentRegistration* next : agents) {
    bool known = !ids.insert(next->agent.id).second;
    for (const DeviceRecord& device : next->devices) {
      known |= !devices.insert(device.id).second;
    }
    const bool fits = !known && devices.size() <= kDevicesAtOnce;
    if (!group.empty() && !fits) break;
    group.push_back(*next);
  }
  return group;
}

}  // namespace

std::vector<Status> Heartbeats::RegisterSome(
    std::span<const AgentRegistration* const> agents) {
  const std::vector<AgentRegistration> group = Group(agents);
  const std::lock_guard writing(writing_);
  const Status stored = RegisterGroup(group);
  if (stored || group.size() == 1 ||
      stored.error().code == Code::kUnavailable) {
    return std::vector<Status>(group.size(), stored);
  }
  // The database refused one of them, and with it all.
  std::vector<Status> answers;
  for (const AgentRegistration& agent : group) {
    answers.push_back(RegisterGroup({&agent, 1}));
  }
  return answers;
}

Status Heartbeats::RegisterGroup(std::span<const AgentRegistration> group) {
  {
    // What was gathered of them is older.
    const std::lock_guard lock(mutex_);
    for (const auto& [agent, devices, now_ms, own_only] : group) {
      gathered_.erase(agent.id);
      leases_.erase(agent.id);
      written_.erase(agent.id);
    }
  }
  UCUDNN_RETURN_IF_ERROR(agents_.RegisterAgents(group));
  const std::lock_guard lock(mutex_);
  for (const auto& [agent, devices, now_ms, own_only] : group) {
    std::vector<DeviceStatus>& written = written_[agent.id];
    for (const DeviceRecord& device : devices) {
      written.push_back({device.id, device.state, device.reason});
    }
  }
  return {};
}

Status Heartbeats::Take(AgentBeat beat, const std::vector<LeaseRef>& leases,
                        std::int64_t lease_ms) {
  {
    const std::lock_guard lock(mutex_);
    const auto last = written_.find(beat.agent);
    if (last != written_.end() && last->second == beat.devices) {
      leases_[beat.agent] = leases;
      gathered_[beat.agent] = std::move(beat);
      return {};
    }
  }
  return at_once_.Run({beat, leases, lease_ms});
}

std::vector<Status> Heartbeats::WriteAtOnce(
    std::span<const NewBeat* const> beats) {
  // Of two heartbeats of one agent, the later one counts.
  std::map<std::string, AgentBeat> of_agents;
  std::map<std::string, std::vector<LeaseRef>> leases;
  for (const NewBeat* item : beats) {
    of_agents.insert_or_assign(item->beat.agent, item->beat);
    leases.insert_or_assign(item->beat.agent, item->leases);
  }
  const std::lock_guard writing(writing_);
  if (const Status written = Write(of_agents, leases, beats.back()->lease_ms);
      !written) {
    return std::vector<Status>(beats.size(), written);
  }
  const std::lock_guard lock(mutex_);
  std::vector<Status> answers;
  for (const NewBeat* item : beats) {
    const std::string& agent = item->beat.agent;
    gathered_.erase(agent);
    leases_.erase(agent);
    if (written_.contains(agent)) {
      answers.emplace_back();
    } else {
      answers.push_back(
          Fail(Code::kNotFound, "agent '{}' is not registered", agent));
    }
  }
  return answers;
}

Status Heartbeats::Flush(std::int64_t lease_ms) {
  const std::lock_guard writing(writing_);
  std::map<std::string, AgentBeat> beats;
  std::map<std::string, std::vector<LeaseRef>> leases;
  {
    const std::lock_guard lock(mutex_);
    beats.swap(gathered_);
    leases.swap(leases_);
  }
  if (beats.empty()) return {};
  Status written = Write(beats, leases, lease_ms);
  if (!written) {
    // merge keeps the heartbeats that arrived meanwhile: they are newer.
    const std::lock_guard lock(mutex_);
    gathered_.merge(beats);
    leases_.merge(leases);
  }
  return written;
}

std::unique_lock<std::mutex> Heartbeats::Forget(const std::string& agent) {
  std::unique_lock writing(writing_);
  const std::lock_guard lock(mutex_);
  gathered_.erase(agent);
  leases_.erase(agent);
  written_.erase(agent);
  return writing;
}

Status Heartbeats::Write(
    const std::map<std::string, AgentBeat>& beats,
    const std::map<std::string, std::vector<LeaseRef>>& leases,
    std::int64_t lease_ms) {
  std::vector<AgentBeat> list;
  UnixMillis latest = 0;
  for (const auto& [agent, beat] : beats) {
    list.push_back(beat);
    latest = std::max(latest, beat.seen_ms);
  }
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> unknown,
                          agents_.Heartbeat(list));
  std::vector<LeaseRef> held;
  for (const auto& [agent, of_agent] : leases) {
    held.insert(held.end(), of_agent.begin(), of_agent.end());
  }
  if (!held.empty()) {
    UCUDNN_RETURN_IF_ERROR(agents_.RenewLeases(held, latest + lease_ms));
  }
  const std::lock_guard lock(mutex_);
  for (const AgentBeat& beat : list) {
    if (std::ranges::binary_search(unknown, beat.agent)) {
      written_.erase(beat.agent);
    } else {
      written_[beat.agent] = beat.devices;
    }
  }
  return {};
}

}  // namespace ucudnn
