// Devices, with what they measure and how they compare, for people.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/actions.h"
#include "coordinator/measuring/campaigns.h"
#include "coordinator/measuring/cross_checking.h"
#include "coordinator/measuring/measuring_service.h"
#include "coordinator/networks/stored_network.h"
#include "coordinator/page.h"
#include "coordinator/planning/planner.h"
#include "proto/convert.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

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
    UCUDNN_ASSIGN_OR_RETURN(const JobRequest request, RequestOf(campaign));
    const auto record =
        plans.GetNetwork(request.network, campaign.network_revision);
    if (!record) continue;  // deleted meanwhile
    UCUDNN_ASSIGN_OR_RETURN(const v1::Network stored, ToProto(*record));
    UCUDNN_ASSIGN_OR_RETURN(const Network network, FromProto(stored));
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

}  // namespace

Result<v1::ListDevicesResponse> MeasuringService::ListDevices(
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

Result<v1::Device> MeasuringService::GetDevice(const v1::GetRequest& request) {
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
