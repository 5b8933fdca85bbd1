#ifndef UCUDNN_COORDINATOR_AGENTS_HEARTBEATS_H_
#define UCUDNN_COORDINATOR_AGENTS_HEARTBEATS_H_

// Gathers heartbeats and writes them to the store together: most say nothing
// new, and each alone would cost a durable commit or two. A heartbeat that does
// say something (the first of an agent to this process, or a changed device) is
// written at once, together with those that come while others are written:
// after a restart, all agents' are.
//
// Gathered heartbeats are lost if the process dies. The agents then look as if
// last seen at the latest Flush, which their next heartbeat corrects; so Flush
// must be called much more often than agents and leases expire.
//
// Thread-safe.

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/agents/agent_store.h"
#include "coordinator/store/group_commit.h"

namespace ucudnn {

class Heartbeats {
 public:
  // `agents` must outlive this.
  explicit Heartbeats(AgentStore& agents)
      : agents_(agents),
        registering_([this](auto group) { return RegisterSome(group); }),
        at_once_([this](auto beats) { return WriteAtOnce(beats); }) {}

  // Stores the agent and its devices, together with others that register while
  // some are stored: after a restart, all agents may. Errors of
  // AgentStore::RegisterAgents.
  Status Register(const AgentRegistration& agent) {
    return registering_.Run(agent);
  }

  // A heartbeat of an agent that holds these leases, which it renews for
  // `lease_ms`. kNotFound: the agent is not registered; this may be noticed one
  // heartbeat late.
  Status Take(AgentBeat beat, const std::vector<LeaseRef>& leases,
              std::int64_t lease_ms);

  // Writes the gathered heartbeats; keeps them if that fails.
  Status Flush(std::int64_t lease_ms);

  // Forgets what was gathered of the agent and has its next heartbeat written
  // at once. To be called before the agent is stored otherwise, which is safe
  // from concurrent heartbeats while the returned guard lives.
  [[nodiscard]] std::unique_lock<std::mutex> Forget(const std::string& agent);

 private:
  // A heartbeat that says something.
  struct NewBeat {
    const AgentBeat& beat;
    const std::vector<LeaseRef>& leases;
    std::int64_t lease_ms;
  };

  std::vector<Status> RegisterSome(
      std::span<const AgentRegistration* const> agents);
  // With writing_ held.
  Status RegisterGroup(std::span<const AgentRegistration> group);
  std::vector<Status> WriteAtOnce(std::span<const NewBeat* const> beats);
  // With writing_ held.
  Status Write(const std::map<std::string, AgentBeat>& beats,
               const std::map<std::string, std::vector<LeaseRef>>& leases,
               std::int64_t lease_ms);

  AgentStore& agents_;
  GroupCommit<AgentRegistration, Status> registering_;
  GroupCommit<NewBeat, Status> at_once_;
  std::mutex writing_;  // held while writing; locked before mutex_
  std::mutex mutex_;    // guards the rest
  std::map<std::string, AgentBeat> gathered_;
  std::map<std::string, std::vector<LeaseRef>> leases_;
  // The state of each agent's devices as last written.
  std::map<std::string, std::vector<DeviceStatus>> written_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_AGENTS_HEARTBEATS_H_
