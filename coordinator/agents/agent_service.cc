#include "coordinator/agents/agent_service.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/service/call.h"
#include "coordinator/actions.h"
#include "coordinator/page.h"
#include "proto/convert.h"
#include "ucudnn/v1/agent.pb.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

Result<DeviceRecord> DeviceRecordOf(const v1::Device& device) {
  DeviceRecord record;
  if (device.id().empty()) {
    return Fail(Code::kInvalidArgument, "a device's id is empty");
  }
  record.kind = FromProto(device.kind_details());
  if (const auto read = ParseDeviceKind(device.kind());
      !read || *read != record.kind || record.kind.units < 1) {
    return Fail(Code::kInvalidArgument,
                "device {}: its kind is '{}', but its details say '{}'",
                device.id(), device.kind(), ToString(record.kind));
  }
  record.id = device.id();
  record.driver = device.driver();
  UCUDNN_ASSIGN_OR_RETURN(record.state, ParseDeviceState(device.state()));
  record.reason = device.state_reason();
  return record;
}

// The ids of each agent's devices.
std::map<std::string, std::vector<std::string>> ByAgent(
    const std::vector<DeviceRecord>& devices) {
  std::map<std::string, std::vector<std::string>> ids;
  for (const DeviceRecord& device : devices) {
    ids[device.agent].push_back(device.id);
  }
  return ids;
}

}  // namespace

std::string StateOf(const HoldRecord& hold) {
  return hold.what == "drain" ? "draining" : "cordoned";
}

v1::Agent ToProto(const ShownAgent& shown) {
  const AgentRecord& record = shown.agent;
  v1::Agent agent;
  agent.set_id(record.id);
  agent.set_host(record.host);
  agent.set_version(record.version);
  agent.set_state(std::string(Name(record.state)));
  if (record.hold) {
    v1::Hold& hold = *agent.mutable_hold();
    hold.set_what(record.hold->what);
    hold.set_who(record.hold->who);
    hold.set_reason(record.hold->reason);
    hold.set_since_ms(record.hold->since_ms);
    hold.set_deadline_ms(record.hold->deadline_ms);
    if (record.state != AgentState::kGone) {
      agent.set_state(StateOf(*record.hold));
    }
  }
  agent.set_registered_ms(record.registered_ms);
  agent.set_last_seen_ms(record.last_seen_ms);
  for (const std::string& device : shown.devices) agent.add_device_ids(device);
  return agent;
}

Result<v1::RegisterResponse> AgentService::Register(
    const v1::RegisterRequest& request) {
  if (request.agent_id().empty()) {
    return Fail(Code::kInvalidArgument, "agent_id is empty");
  }
  UCUDNN_RETURN_IF_ERROR(
      CheckLength("devices", request.devices_size(), kMaxDevicesPerAgent));
  AgentRegistration registration;
  for (const v1::Device& device : request.devices()) {
    UCUDNN_ASSIGN_OR_RETURN(DeviceRecord record, DeviceRecordOf(device));
    registration.devices.push_back(std::move(record));
  }
  registration.agent.id = request.agent_id();
  registration.agent.host = request.host();
  registration.agent.machine_id = request.machine_id();
  registration.agent.version = request.version();
  registration.now_ms = clock_.NowMs();
  registration.own_only = !Call::Caller().empty();
  UCUDNN_RETURN_IF_ERROR(heartbeats_.Register(registration));
  v1::RegisterResponse response;
  response.set_heartbeat_ms(context_.options()->heartbeat_ms);
  return response;
}

Result<DeviceRecord> AgentService::DeviceOf(const std::string& agent,
                                            const std::string& id) {
  UCUDNN_ASSIGN_OR_RETURN(DeviceRecord device, store_.agents.GetDevice(id));
  if (device.agent != agent) {
    return Fail(Code::kNotFound,
                "device {} is registered by agent {}, not by {}", device.id,
                device.agent, agent);
  }
  return device;
}

Result<v1::HeartbeatResponse> AgentService::Heartbeat(
    const v1::HeartbeatRequest& request) {
  UCUDNN_RETURN_IF_ERROR(
      CheckLength("devices", request.devices_size(), kMaxDevicesPerAgent));
  UCUDNN_RETURN_IF_ERROR(
      CheckLength("leases", request.leases_size(), kMaxLeasesPerHeartbeat));
  AgentBeat beat{request.agent_id(), {}, clock_.NowMs()};
  for (const v1::Device& device : request.devices()) {
    UCUDNN_ASSIGN_OR_RETURN(const DeviceState state,
                            ParseDeviceState(device.state()));
    beat.devices.push_back({device.id(), state, device.state_reason()});
  }
  std::vector<LeaseRef> leases;
  for (const v1::TaskLease& lease : request.leases()) {
    leases.push_back({lease.task_id(), lease.lease_token()});
  }
  UCUDNN_RETURN_IF_ERROR(
      heartbeats_.Take(std::move(beat), leases, context_.options()->lease_ms));
  return v1::HeartbeatResponse();
}

Result<v1::LeaveResponse> AgentService::Leave(const v1::LeaveRequest& request) {
  const auto guard = heartbeats_.Forget(request.agent_id());
  UCUDNN_RETURN_IF_ERROR(store_.agents.ReleaseLeases(request.agent_id()));
  UCUDNN_RETURN_IF_ERROR(store_.agents.SetAgentState(
      request.agent_id(), AgentState::kGone, "the agent was stopped"));
  return v1::LeaveResponse();
}

Result<v1::ListAgentsResponse> AgentService::ListAgents(
    const v1::ListRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const auto agents, store_.agents.ListAgents());
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, store_.agents.ListDevices(""));
  const auto ids = ByAgent(devices);
  v1::ListAgentsResponse response;
  UCUDNN_ASSIGN_OR_RETURN(
      const auto page,
      PageOf(agents, request, [](const AgentRecord& a) { return a.id; }));
  PageBytes bytes;
  for (const AgentRecord& agent : page) {
    const auto of_agent = ids.find(agent.id);
    v1::Agent& added = *response.add_agents();
    added = ucudnn::ToProto({agent, of_agent == ids.end()
                                        ? std::vector<std::string>()
                                        : of_agent->second});
    if (bytes.Fill(added)) break;
  }
  return response;
}

Result<v1::Agent> AgentService::GetAgent(const v1::GetRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const ShownAgent shown, Show(request.id()));
  return ucudnn::ToProto(shown);
}

Result<ShownAgent> AgentService::Show(const std::string& id) {
  UCUDNN_ASSIGN_OR_RETURN(const AgentRecord agent, store_.agents.GetAgent(id));
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, store_.agents.ListDevices(""));
  return ShownAgent{agent, ByAgent(devices)[agent.id]};
}

Result<v1::DeleteResponse> AgentService::DeleteAgent(
    const v1::DeleteRequest& request) {
  const auto guard = heartbeats_.Forget(request.id());
  return Delete(request, "node " + request.id(), clock_.NowMs(),
                [&](const ActionRecord& action) {
                  return store_.agents.DeleteAgent(request.id(), action);
                });
}

Status AgentService::Maintain() {
  UCUDNN_RETURN_IF_ERROR(heartbeats_.Flush(context_.options()->lease_ms));
  UCUDNN_ASSIGN_OR_RETURN(const auto agents, store_.agents.ListAgentPulses());
  const std::int64_t refused = context_.activity.heartbeats_refused;
  const bool some_refused = std::exchange(refused_, refused) != refused;
  if (const auto silent =
          heard_.Silent(agents, clock_.SteadyMs(),
                        context_.options()->agent_timeout_ms, some_refused);
      !silent.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const auto gone,
                            store_.agents.ExpireAgents(silent));
    context_.activity.agents_lost += std::ssize(gone);
    for (const std::string& id : gone) {
      context_.LogLost("agent_gone", "agent", id,
                       context_.options()->agent_timeout_ms);
    }
  }
  UCUDNN_ASSIGN_OR_RETURN(devices_, store_.agents.CountDevices());
  return {};
}

}  // namespace ucudnn
