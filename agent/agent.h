#ifndef UCUDNN_AGENT_AGENT_H_
#define UCUDNN_AGENT_AGENT_H_

// A node's daemon: it registers its devices, measures their models if nobody
// has, leases benchmark tasks for each, measures them, and reports until the
// coordinator has acknowledged. It retries
// an unavailable coordinator with jittered backoff, and registers again with
// one that has forgotten it.
//
// Threads: one per device, the only one to touch it, and one for heartbeats.
// Slices of one GPU are measured in turns, and device models of the whole
// agent, since the devices of a host share its memory.

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "agent/link.h"
#include "base/measured_point.h"
#include "base/result.h"
#include "base/training/device_model.h"
#include "device/device.h"
#include "device/measure/campaign.h"
#include "device/training/other_tasks.h"

namespace ucudnn {

// Measures one task on a device, as RunCampaign does. Stops early, with
// kCancelled, when asked to; kDataLoss: the device is lost.
using Measurer = std::function<Result<std::vector<MeasuredPoint>>(
    Device& device, const CampaignTask& task, const std::stop_token& stop,
    const PointsSink& sink)>;

// Measures the tasks of a network that are not convolutions, as
// MeasureOtherTasks does (device/training/other_tasks.h). Errors as Measurer.
using TasksMeasurer = std::function<Result<std::vector<MeasuredPoint>>(
    Device& device, const OtherTasksCampaign& campaign,
    const std::stop_token& stop)>;

// Measures a device's model (base/training/device_model.h). Errors as Measurer.
using ModelMeasurer = std::function<Result<DeviceModel>(
    Device& device, const std::stop_token& stop)>;

struct AgentOptions {
  std::string id;
  std::string host;
  std::string machine_id = {};  // of two hosts with one name; may be empty
  std::string version;
  int tasks_per_lease = 2;  // few, so that equal devices finish together
  // How long runs and reports may continue after the agent was asked to stop;
  // then it gives its leases back.
  std::chrono::milliseconds stop_grace{2'500};
  // Returns a device's clocks right after a task; may be absent.
  std::function<DeviceClocks(const DeviceInfo& device)> clocks = {};
  // Returns the current conditions of measurements on a device, as its driver's
  // text; if absent, DeviceInfo::driver.
  std::function<std::string(const DeviceInfo& device)> conditions = {};
  // Added to each wait for a coordinator that does not answer, in part by
  // chance, so that agents do not all come back to it at the same moment.
  std::chrono::milliseconds reconnect_spread = kReconnectSpread;
  // If absent, the coordinator asks others for device models.
  ModelMeasurer measure_model = {};
  // If absent, tasks other than convolutions fail.
  TasksMeasurer measure_tasks = {};
  // Called again and again while the agent works or waits for a coordinator,
  // however long a measurement takes; may be absent.
  std::function<void()> alive = {};
  // GPUs that cannot be used, and why: the coordinator lists them as lost.
  std::vector<std::pair<DeviceInfo, std::string>> left_out = {};
  // Interval between partial reports of a long task.
  std::chrono::milliseconds partial_report{2'000};
};

// Runs until `stop` is requested, then reports what is finished, gives back
// its leases and returns. Nothing interrupts a run on a device: one that takes
// longer than `stop_grace` delays the return, but not the release of the
// leases, and a process that is about to end does not wait for it
// (docs/adr/0020). A device that breaks is reported as lost, with the reason,
// and no longer used; the others continue. kFailedPrecondition if there is no
// device; kDataLoss, at once, when the last one broke: a new process may be
// able to use them; kAlreadyExists: an agent of this name works on another
// machine.
Status RunAgent(const AgentOptions& options, Link& link,
                const std::vector<std::unique_ptr<Device>>& devices,
                const Measurer& measure, std::stop_token stop);

}  // namespace ucudnn

#endif  // UCUDNN_AGENT_AGENT_H_
