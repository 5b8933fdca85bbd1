#ifndef UCUDNN_AGENT_AGENT_H_
#define UCUDNN_AGENT_AGENT_H_

// What a node's daemon does: it announces its devices, takes benchmark tasks
// for each, measures them, and reports until the coordinator has acknowledged.
// A coordinator that is away is tried again with jittered back-off, and one
// that has forgotten the agent is told of it anew.
//
// Threads: one for each device, which alone touches it, and one for
// heartbeats. Slices of one GPU are measured in turns.

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "agent/link.h"
#include "base/measured_point.h"
#include "base/result.h"
#include "campaign/campaign.h"
#include "device/device.h"

namespace ucudnn {

// Measures one task on a device, as RunCampaign does. Stops early, with
// kCancelled, when asked to; kDataLoss: the device is of no use any more.
using Measurer = std::function<Result<std::vector<MeasuredPoint>>(
    Device& device, const CampaignTask& task, const std::stop_token& stop,
    const PointsSink& sink)>;

struct AgentOptions {
  std::string id;
  std::string host;
  std::string version;
  int tasks_per_lease = 2;  // few, so that equal devices end together
  // How long runs and reports may still take after the agent was asked to
  // stop; then its leases are given back.
  std::chrono::milliseconds stop_grace{2'500};
  // Tells a device's clocks right after a task; may be absent.
  std::function<DeviceClocks(const DeviceInfo& device)> clocks = {};
  // Tells what measurements of a device are true under now, as its driver's
  // text; may be absent, and is then DeviceInfo::driver.
  std::function<std::string(const DeviceInfo& device)> conditions = {};
  // What was measured of a task that takes long is reported so often.
  std::chrono::milliseconds partial_report{2'000};
};

// Runs until `stop` is requested, then reports what is finished, gives back
// its leases and returns. Nothing interrupts a run on a device: one that takes
// longer than `stop_grace` delays the return, though not the giving back, and a
// process that is to end does not wait for it (docs/adr/0024). A device that
// breaks is reported as lost, with the reason, and left alone; the others go
// on. kFailedPrecondition if there is no device; kDataLoss, at once, when the
// last one broke: a new process may be able to use them.
Status RunAgent(const AgentOptions& options, Link& link,
                const std::vector<std::unique_ptr<Device>>& devices,
                const Measurer& measure, std::stop_token stop);

}  // namespace ucudnn

#endif  // UCUDNN_AGENT_AGENT_H_
