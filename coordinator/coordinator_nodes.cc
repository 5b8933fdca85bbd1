// Nodes and their devices, for people.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/service/log.h"
#include "base/text.h"
#include "coordinator/campaigns.h"
#include "coordinator/content.h"
#include "coordinator/coordinator.h"
#include "coordinator/cross_checking.h"
#include "coordinator/page.h"
#include "coordinator/planning/planner.h"
#include "proto/convert.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

constexpr char kCordon[] = "cordon";
constexpr char kDrain[] = "drain";

// The leases of each device.
using Leases = std::map<std::string, std::vector<TaskRecord>>;

Result<Leases> LeasesByDevice(Tasks& tasks, UnixMillis now_ms) {
  UCUDNN_ASSIGN_OR_RETURN(const auto leased, tasks.ListLeases(now_ms));
  Leases leases;
  for (const TaskRecord& task : leased) leases[task.device].push_back(task);
  return leases;
}

// The layers of running campaigns' networks by problem, for what devices
// measure first.
using LayerNames = std::map<std::string, std::string>;

Result<LayerNames> NamesOfLayers(Campaigns& campaigns, Plans& plans,
                                 const Leases& leases) {
  constexpr std::int64_t kMost = 16;
  LayerNames names;
  std::set<std::string> wanted;
  for (const auto& [device, tasks] : leases) {
    wanted.insert(tasks.front().key.problem);
  }
  if (wanted.empty()) return names;
  UCUDNN_ASSIGN_OR_RETURN(const auto running,
                          campaigns.ListRunningCampaigns(kMost));
  for (const CampaignRecord& campaign : running) {
    if (names.size() == wanted.size()) break;
    UCUDNN_ASSIGN_OR_RETURN(const v1::Campaign message, ToProto(campaign));
    const auto record = plans.GetNetwork(message.request().network(),
                                         campaign.network_revision);
    if (!record) continue;  // deleted meanwhile
    UCUDNN_ASSIGN_OR_RETURN(const v1::Network stored, ToProto(*record));
    UCUDNN_ASSIGN_OR_RETURN(const Network network, FromProto(stored));
    UCUDNN_ASSIGN_OR_RETURN(const JobRequest request,
                            ParsePlanRequest(message.request()));
    for (const Kernel& kernel :
         KernelsOf(network, request.precision, request.layout)) {
      const std::string problem = ToString(kernel.problem);
      if (!wanted.contains(problem)) continue;
      names.try_emplace(problem, fmt::format("{} {} {}", record->name,
                                             kernel.layer, Name(kernel.op)));
    }
  }
  return names;
}

// The state of a node and its idle devices.
std::string StateOf(const HoldRecord& hold) {
  return hold.what == kDrain ? "draining" : "cordoned";
}

v1::Device ToProto(const DeviceRecord& record,
                   const std::vector<DeviceComparison>& compared,
                   const Leases& leases, const LayerNames& layers) {
  v1::Device device;
  device.set_id(record.id);
  device.set_agent_id(record.agent);
  device.set_kind(ToString(record.kind));
  *device.mutable_kind_details() = ToProto(record.kind);
  device.set_driver(record.driver);
  device.set_state(std::string(Name(record.state)));
  device.set_state_reason(record.reason);
  if (record.hold && record.state == DeviceState::kIdle) {
    device.set_state(StateOf(*record.hold));
    device.set_state_reason(
        ByWhomAndWhy(record.hold->who, record.hold->reason));
  }
  device.set_last_seen_ms(record.last_seen_ms);
  const auto found =
      std::ranges::find(compared, record.id, &DeviceComparison::device);
  if (found != compared.end()) {
    v1::Comparison& comparison = *device.mutable_comparison();
    comparison.set_relative_time(found->relative_time);
    comparison.set_points(found->points);
    comparison.set_precision(std::string(Name(found->precision)));
    comparison.set_deviates(found->deviates);
    comparison.set_text(found->text);
  }
  if (const auto leased = leases.find(record.id); leased != leases.end()) {
    const std::vector<TaskRecord>& tasks = leased->second;
    const auto layer = layers.find(tasks.front().key.problem);
    v1::Measuring& measuring = *device.mutable_measuring();
    measuring.set_problem(tasks.front().key.problem);
    measuring.set_batch(tasks.front().key.batch.count());
    measuring.set_tasks(std::ssize(tasks));
    if (layer != layers.end()) measuring.set_layer(layer->second);
  }
  return device;
}

v1::Agent ToProto(const AgentRecord& record,
                  const std::vector<std::string>& devices) {
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
  for (const std::string& device : devices) agent.add_device_ids(device);
  return agent;
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

Result<v1::ListAgentsResponse> Coordinator::ListAgents(
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
    added = ToProto(agent, of_agent == ids.end() ? std::vector<std::string>()
                                                 : of_agent->second);
    if (bytes.Fill(added)) break;
  }
  return response;
}

Result<v1::HoldAgentResponse> Coordinator::HoldAgent(
    const v1::HoldAgentRequest& request) {
  const std::string& what = request.what();
  if (what != kCordon && what != kDrain && what != "resume") {
    return Fail(Code::kInvalidArgument,
                "what is '{}'; cordon, drain and resume are accepted",
                Excerpt(what));
  }
  const UnixMillis now = clock_.NowMs();
  std::optional<HoldRecord> hold;
  if (what != "resume") {
    hold = HoldRecord{.what = what,
                      .who = request.who(),
                      .reason = request.reason(),
                      .since_ms = now,
                      .deadline_ms = request.deadline_ms()};
  }
  UCUDNN_RETURN_IF_ERROR(
      store_.agents.HoldAgent(request.agent_id(), hold,
                              {.made_ms = now,
                               .who = request.who(),
                               .what = what,
                               .object = "node " + request.agent_id(),
                               .reason = request.reason(),
                               .outcome = ""},
                              request.who() == "agent " + request.agent_id()));
  spdlog::info("event={} node={} who={} why={}", what,
               Quoted(request.agent_id()), Quoted(request.who()),
               Quoted(request.reason()));
  v1::HoldAgentResponse response;
  v1::GetRequest get;
  get.set_id(request.agent_id());
  UCUDNN_ASSIGN_OR_RETURN(*response.mutable_agent(), GetAgent(get));
  if (what == kCordon) return response;
  UCUDNN_ASSIGN_OR_RETURN(const auto jobs, what == kDrain
                                               ? DrainJobs(response.agent())
                                               : ResumeJobs(response.agent()));
  for (const v1::DrainedJob& job : jobs) *response.add_jobs() = job;
  return response;
}

Result<v1::Agent> Coordinator::GetAgent(const v1::GetRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const AgentRecord agent,
                          store_.agents.GetAgent(request.id()));
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, store_.agents.ListDevices(""));
  return ToProto(agent, ByAgent(devices)[agent.id]);
}

Result<v1::ListDevicesResponse> Coordinator::ListDevices(
    const v1::ListRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const auto devices,
                          store_.agents.ListDevices(request.kind()));
  v1::ListDevicesResponse response;
  UCUDNN_ASSIGN_OR_RETURN(
      const auto page,
      PageOf(devices, request, [](const DeviceRecord& d) { return d.id; }));
  UCUDNN_ASSIGN_OR_RETURN(const Leases leases,
                          LeasesByDevice(store_.tasks, clock_.NowMs()));
  UCUDNN_ASSIGN_OR_RETURN(
      const LayerNames layers,
      NamesOfLayers(store_.campaigns, store_.plans, leases));
  std::map<std::string, std::vector<DeviceComparison>> compared;
  PageBytes bytes;
  for (const DeviceRecord& device : page) {
    const std::string kind = ToString(device.kind);
    if (!compared.contains(kind)) {
      UCUDNN_ASSIGN_OR_RETURN(compared[kind],
                              CompareKind(store_.measurements, kind));
    }
    v1::Device& added = *response.add_devices();
    added = ToProto(device, compared[kind], leases, layers);
    if (bytes.Fill(added)) break;
  }
  return response;
}

Result<v1::Device> Coordinator::GetDevice(const v1::GetRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const DeviceRecord device,
                          store_.agents.GetDevice(request.id()));
  UCUDNN_ASSIGN_OR_RETURN(
      const auto compared,
      CompareKind(store_.measurements, ToString(device.kind)));
  UCUDNN_ASSIGN_OR_RETURN(const Leases leases,
                          LeasesByDevice(store_.tasks, clock_.NowMs()));
  UCUDNN_ASSIGN_OR_RETURN(
      const LayerNames layers,
      NamesOfLayers(store_.campaigns, store_.plans, leases));
  return ToProto(device, compared, leases, layers);
}

}  // namespace ucudnn
