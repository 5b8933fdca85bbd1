#ifndef UCUDNN_COORDINATOR_AGENTS_AGENT_SERVICE_H_
#define UCUDNN_COORDINATOR_AGENTS_AGENT_SERVICE_H_

// Agents and the devices that they offer. Callers include ucudnn/v1/*.pb.h for
// the messages.

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "coordinator/agents/heartbeats.h"
#include "coordinator/agents/liveness.h"
#include "coordinator/context.h"
#include "coordinator/limits.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// An agent as people see it.
struct ShownAgent {
  AgentRecord agent;
  std::vector<std::string> devices;  // their ids
};
v1::Agent ToProto(const ShownAgent& shown);

// Thread-safe. What a call acknowledges is stored, except heartbeats
// (heartbeats.h).
class AgentService {
 public:
  explicit AgentService(Context& context)
      : context_(context),
        store_(context.store),
        clock_(context.clock),
        heartbeats_(context.store.agents) {}

  // See proto/ucudnn/v1/agent.proto and coordinator.proto.
  Result<v1::RegisterResponse> Register(const v1::RegisterRequest& request);
  Result<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request);
  Result<v1::LeaveResponse> Leave(const v1::LeaveRequest& request);
  Result<v1::ListAgentsResponse> ListAgents(const v1::ListRequest& request);
  Result<v1::Agent> GetAgent(const v1::GetRequest& request);
  Result<v1::DeleteResponse> DeleteAgent(const v1::DeleteRequest& request);

  // The agent's device. kNotFound if it is another agent's.
  Result<DeviceRecord> DeviceOf(const std::string& agent,
                                const std::string& device);
  Result<ShownAgent> Show(const std::string& agent);
  // How many devices are online, as Maintain last saw.
  std::int64_t devices() const { return devices_; }

  // Writes gathered heartbeats and expires silent agents. Called by one thread.
  Status Maintain();

 private:
  Context& context_;
  Store& store_;
  const Clock& clock_;
  Heartbeats heartbeats_;
  std::atomic<std::int64_t> devices_ = 0;
  // Used by Maintain only.
  Liveness heard_{kReturnMs, kManyAgents};
  std::int64_t refused_ = 0;
};

// The state of a node and its idle devices.
std::string StateOf(const HoldRecord& hold);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_AGENTS_AGENT_SERVICE_H_
