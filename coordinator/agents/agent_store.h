#ifndef UCUDNN_COORDINATOR_AGENTS_AGENT_STORE_H_
#define UCUDNN_COORDINATOR_AGENTS_AGENT_STORE_H_

// Agents and the devices they offer. stores.h states what holds for every call.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/device_kind.h"
#include "base/result.h"
#include "coordinator/store/actions.h"
#include "coordinator/store/pulse.h"
#include "coordinator/store/unix_millis.h"

namespace ucudnn {

class SqlDatabase;

enum class AgentState {
  kOnline,  // sends heartbeats
  kGone,    // stopped, or silent for too long
};
// "online", "gone".
std::string_view Name(AgentState state);
Result<AgentState> ParseAgentState(std::string_view text);

// Why an agent's devices take no more tasks.
struct HoldRecord {
  std::string what;  // "cordon" or "drain"
  std::string who;
  std::string reason;
  UnixMillis since_ms = 0;
  UnixMillis deadline_ms = 0;  // when the node goes down; 0: unknown

  friend bool operator==(const HoldRecord&, const HoldRecord&) = default;
};

struct AgentRecord {
  std::string id;  // chosen by the agent, stable over its restarts
  std::string host;
  std::string version;
  AgentState state = AgentState::kOnline;
  UnixMillis registered_ms = 0;  // of the first registration
  UnixMillis last_seen_ms = 0;
  std::optional<HoldRecord> hold = {};  // absent: it takes tasks
  std::string machine_id = {};  // of hosts with one name; empty if unknown

  friend bool operator==(const AgentRecord&, const AgentRecord&) = default;
};

enum class DeviceState {
  kIdle,
  kBusy,  // another program uses it; the reason names it
  kLost,  // it failed, or its agent no longer reports it
};
// "idle", "busy", "lost".
std::string_view Name(DeviceState state);
Result<DeviceState> ParseDeviceState(std::string_view text);

struct DeviceRecord {
  std::string id;     // a UUID, unique in the cluster
  std::string agent;  // the id of the agent that registered it last
  DeviceKind kind;
  std::string driver;
  DeviceState state = DeviceState::kIdle;
  std::string reason;  // of the state, for people; empty when idle
  UnixMillis last_seen_ms = 0;
  std::optional<HoldRecord> hold = {};  // its agent's

  friend bool operator==(const DeviceRecord&, const DeviceRecord&) = default;
};

struct DeviceStatus {
  std::string id;
  DeviceState state = DeviceState::kIdle;
  std::string reason;

  friend bool operator==(const DeviceStatus&, const DeviceStatus&) = default;
};

// An agent that registers, with its devices.
struct AgentRegistration {
  AgentRecord agent;
  std::vector<DeviceRecord> devices;
  UnixMillis now_ms = 0;
  bool own_only = false;  // no device of an agent that is not gone
};

// An agent's heartbeat.
struct AgentBeat {
  std::string agent;
  std::vector<DeviceStatus> devices;
  UnixMillis seen_ms = 0;
};

struct KindSummary {
  DeviceKind kind;
  std::int64_t devices = 0;  // registered, in any state
  std::int64_t usable = 0;   // of these, idle or busy, without a hold
};

// A lease of a task. The token is random, from 1 on: who knows it leased the
// task.
struct LeaseRef {
  std::int64_t task = 0;
  std::int64_t token = 0;

  friend auto operator<=>(const LeaseRef&, const LeaseRef&) = default;
};

class AgentStore {
 public:
  explicit AgentStore(SqlDatabase& database) : database_(database) {}

  // Registers agents and their devices, all or nothing. An agent becomes
  // online, and its devices take the states given. A device of another agent
  // changes hands; devices that an agent had and no longer names become lost.
  // `agent` of the devices, and holds and times of the records are ignored: a
  // hold stays, the agent and its devices were seen at `now_ms`, and an agent
  // keeps the time of its first registration. kInvalidArgument: an agent or a
  // device is there twice. kAlreadyExists: an agent of this name is online on
  // another machine. kPermissionDenied: one is `own_only`, and a device is that
  // of another agent.
  Status RegisterAgents(std::span<const AgentRegistration> registrations);
  // The same for one.
  Status RegisterAgent(const AgentRecord& agent,
                       std::span<const DeviceRecord> devices,
                       UnixMillis now_ms) {
    const AgentRegistration registration{
        agent, {devices.begin(), devices.end()}, now_ms};
    return RegisterAgents({&registration, 1});
  }
  // Stores the heartbeats, at most one of each agent. A gone agent is online
  // again. Devices that a heartbeat does not name, and devices of other agents,
  // stay as they are. Returns the agents that are not registered, sorted.
  Result<std::vector<std::string>> Heartbeat(std::span<const AgentBeat> beats);
  // If `state` is kGone, the agent's devices become lost, for `reason`.
  // kNotFound.
  Status SetAgentState(const std::string& agent, AgentState state,
                       const std::string& reason);
  // Sets the agent's hold, or ends it if absent, and records the action.
  // kNotFound. kPermissionDenied: `own_only`, and the agent has a hold by
  // another than the action's.
  Status HoldAgent(const std::string& agent,
                   const std::optional<HoldRecord>& hold,
                   const ActionRecord& action, bool own_only);
  // Deletes an agent, its hold and its devices, and records the action.
  // kNotFound; kFailedPrecondition: it is not gone.
  Status DeleteAgent(const std::string& agent, const ActionRecord& action);
  // The pulses of all agents that are not gone. Each registration and each
  // heartbeat stored is a beat.
  Result<std::vector<Pulse>> ListAgentPulses();
  // Those agents become gone, their devices lost and their leases expired,
  // whose pulses have not changed since they were listed. Returns the ids of
  // those that were not gone yet, sorted.
  Result<std::vector<std::string>> ExpireAgents(std::span<const Pulse> silent);
  Result<std::vector<AgentRecord>> ListAgents();
  Result<AgentRecord> GetAgent(const std::string& id);  // kNotFound
  // The devices of `kind`, or all devices if it is empty.
  Result<std::vector<DeviceRecord>> ListDevices(const std::string& kind);
  Result<DeviceRecord> GetDevice(const std::string& id);  // kNotFound
  // The drivers of the kind's usable devices, sorted. Measurements under other
  // drivers are stale; none is if the list is empty.
  Result<std::vector<std::string>> ListDrivers(const std::string& kind);
  // How many devices are not lost.
  Result<std::int64_t> CountDevices();
  // The kinds of all registered devices.
  Result<std::vector<KindSummary>> ListKinds();

  // Extends those leases that are still the latest of their tasks, even if they
  // have expired; never shortens one. Returns the ids of their tasks, sorted.
  Result<std::vector<std::int64_t>> RenewLeases(
      std::span<const LeaseRef> leases, UnixMillis until_ms);
  // Makes all tasks that the agent has leased pending again, without counting
  // the attempts. Returns their number.
  Result<std::int64_t> ReleaseLeases(const std::string& agent);

 private:
  SqlDatabase& database_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_AGENTS_AGENT_STORE_H_
