#include "agent/agent.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/backoff.h"
#include "proto/convert.h"

namespace ucudnn {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// Sleeps, but wakes up when asked to stop.
void Wait(const std::stop_token& stop, milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, time, [] { return false; });
}

class Agent {
 public:
  Agent(const AgentOptions& options, Link& link,
        const std::vector<std::unique_ptr<Device>>& devices,
        const Measurer& measure, std::stop_token stop)
      : options_(options),
        link_(link),
        devices_(devices),
        measure_(measure),
        stop_(std::move(stop)),
        states_(devices_.size()) {}

  void Run() {
    Register();
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < devices_.size(); ++i) {
        threads.emplace_back([this, i] { Work(i); });
      }
      // Beats until the last device is done, so that leases stay alive.
      std::jthread heart([this](const std::stop_token& done) { Beat(done); });
      for (std::jthread& thread : threads) thread.join();
    }
    v1::LeaveRequest leave;
    leave.set_agent_id(options_.id);
    if (const auto left = link_.Leave(leave); !left) {
      spdlog::warn("event=leave_failed error=\"{}\"", left.error().message);
    }
    spdlog::info("event=stopped agent={}", options_.id);
  }

 private:
  // What the heartbeat tells about a device; guarded by mutex_.
  struct DeviceState {
    std::string busy_with;
    std::vector<v1::TaskLease> leases;
  };

  // Tries until it succeeds or the agent is to stop.
  void Register() {
    const std::lock_guard lock(register_mutex_);
    v1::RegisterRequest request;
    request.set_agent_id(options_.id);
    request.set_host(options_.host);
    request.set_version(options_.version);
    for (const auto& device : devices_) {
      const DeviceInfo& info = device->info();
      v1::Device& d = *request.add_devices();
      d.set_id(info.id);
      d.set_agent_id(options_.id);
      d.set_kind(ToString(info.kind));
      v1::DeviceKind& kind = *d.mutable_kind_details();
      kind.set_model(info.kind.model);
      kind.set_units(info.kind.units);
      kind.set_memory_bytes(info.kind.memory.count());
      kind.set_library(info.kind.library);
      d.set_driver(info.driver);
      d.set_state("idle");
    }
    Backoff backoff(options_.seed);
    while (!stop_.stop_requested()) {
      const auto response = link_.Register(request);
      if (response) {
        heartbeat_ = milliseconds(
            std::clamp<std::int64_t>(response->heartbeat_ms(), 50, 60'000));
        spdlog::info("event=registered agent={} devices={}", options_.id,
                     devices_.size());
        return;
      }
      spdlog::warn("event=register_failed error=\"{}\"",
                   response.error().message);
      Wait(stop_, backoff.Next());
    }
  }

  // One device's thread: lease, measure, report.
  void Work(std::size_t index) {
    Device& device = *devices_[index];
    Backoff backoff(options_.seed + index + 1);
    while (!stop_.stop_requested()) {
      if (!WaitUntilFree(index)) return;
      v1::LeaseTasksRequest request;
      request.set_agent_id(options_.id);
      request.set_device_id(device.info().id);
      request.set_max_tasks(options_.tasks_per_lease);
      const auto leased = link_.LeaseTasks(request);
      if (!leased) {
        spdlog::warn("event=lease_failed device={} error=\"{}\"",
                     device.info().id, leased.error().message);
        if (leased.error().code == Code::kNotFound) {
          Register();
        } else {
          Wait(stop_, backoff.Next());
        }
        continue;
      }
      backoff.Reset();
      SetLeases(index, leased->tasks());
      for (const v1::Task& task : leased->tasks()) {
        if (stop_.stop_requested()) break;
        if (!WaitUntilFree(index)) break;
        if (std::optional<v1::ReportTaskRequest> report =
                Measure(device, task)) {
          Report(*report);
        }
        DropLease(index, task.id());
      }
      if (leased->tasks().empty()) {
        Wait(stop_, milliseconds(std::clamp<std::int64_t>(
                        leased->poll_after_ms(), 10, 60'000)));
      }
    }
  }

  // Waits while somebody else computes on the device; false if the agent is
  // to stop.
  bool WaitUntilFree(std::size_t index) {
    bool said = false;
    while (!stop_.stop_requested()) {
      const std::string busy_with = devices_[index]->BusyWith();
      {
        const std::lock_guard lock(mutex_);
        states_[index].busy_with = busy_with;
      }
      if (busy_with.empty()) return true;
      if (!said) {
        spdlog::info("event=device_busy device={} with=\"{}\"",
                     devices_[index]->info().id, busy_with);
        said = true;
      }
      Wait(stop_, milliseconds(2000));
    }
    return false;
  }

  // The report of one task, or nothing if the agent was stopped meanwhile.
  std::optional<v1::ReportTaskRequest> Measure(Device& device,
                                               const v1::Task& task) {
    v1::ReportTaskRequest report;
    report.set_agent_id(options_.id);
    report.set_device_id(device.info().id);
    report.set_task_id(task.id());
    report.set_lease_token(task.lease_token());
    report.set_max_workspace_bytes(task.max_workspace_bytes());
    report.set_driver(device.info().driver);
    const auto points = [&]() -> Result<std::vector<MeasuredPoint>> {
      UCUDNN_ASSIGN_OR_RETURN(const ConvProblem problem,
                              ParseConvProblem(task.problem()));
      return measure_(device, problem, BatchSize(task.batch()),
                      Bytes(task.max_workspace_bytes()), stop_);
    }();
    if (points) {
      for (const MeasuredPoint& point : *points) {
        *report.add_measurements() = ToProto(point);
      }
      spdlog::info("event=measured device={} problem={} batch={} points={}",
                   device.info().id, task.problem(), task.batch(),
                   points->size());
      return report;
    }
    const Error& error = points.error();
    if (error.code == Code::kCancelled) return std::nullopt;
    spdlog::error(
        "event=task_failed device={} problem={} batch={} error=\"{}\"",
        device.info().id, task.problem(), task.batch(), error.message);
    report.set_error(error.message.empty() ? std::string(CodeName(error.code))
                                           : error.message);
    report.set_retryable(error.code != Code::kUnimplemented &&
                         error.code != Code::kInvalidArgument);
    return report;
  }

  // Tries until the coordinator has acknowledged it. What it refuses for good
  // is dropped: the task itself is still there and will be leased again.
  void Report(const v1::ReportTaskRequest& report) {
    Backoff backoff(options_.seed +
                    static_cast<std::uint64_t>(report.task_id()));
    std::optional<SteadyClock::time_point> give_up;
    while (true) {
      const auto response = link_.ReportTask(report);
      if (response) return;
      const Code code = response.error().code;
      spdlog::warn("event=report_failed task={} error=\"{}\"", report.task_id(),
                   response.error().message);
      if (code == Code::kInvalidArgument || code == Code::kNotFound ||
          code == Code::kUnimplemented) {
        return;
      }
      if (stop_.stop_requested()) {
        const auto now = SteadyClock::now();
        if (!give_up) give_up = now + options_.drain_grace;
        if (now >= *give_up) return;
        // Being asked to stop no longer shortens this wait.
        std::this_thread::sleep_for(backoff.Next());
      } else {
        Wait(stop_, backoff.Next());
      }
    }
  }

  void Beat(const std::stop_token& done) {
    while (true) {
      Wait(done, heartbeat_.load());
      if (done.stop_requested()) return;
      v1::HeartbeatRequest request;
      request.set_agent_id(options_.id);
      {
        const std::lock_guard lock(mutex_);
        for (std::size_t i = 0; i < devices_.size(); ++i) {
          v1::Device& device = *request.add_devices();
          device.set_id(devices_[i]->info().id);
          device.set_state(states_[i].busy_with.empty() ? "idle" : "busy");
          device.set_state_reason(states_[i].busy_with);
          for (const v1::TaskLease& lease : states_[i].leases) {
            *request.add_leases() = lease;
          }
        }
      }
      const auto response = link_.Heartbeat(request);
      if (!response && response.error().code == Code::kNotFound) Register();
    }
  }

  void SetLeases(std::size_t index,
                 const google::protobuf::RepeatedPtrField<v1::Task>& tasks) {
    const std::lock_guard lock(mutex_);
    states_[index].leases.clear();
    for (const v1::Task& task : tasks) {
      v1::TaskLease& lease = states_[index].leases.emplace_back();
      lease.set_task_id(task.id());
      lease.set_lease_token(task.lease_token());
    }
  }

  void DropLease(std::size_t index, std::int64_t task_id) {
    const std::lock_guard lock(mutex_);
    std::erase_if(states_[index].leases, [&](const v1::TaskLease& lease) {
      return lease.task_id() == task_id;
    });
  }

  const AgentOptions& options_;
  Link& link_;
  const std::vector<std::unique_ptr<Device>>& devices_;
  const Measurer& measure_;
  std::stop_token stop_;
  std::atomic<milliseconds> heartbeat_{milliseconds(2000)};
  std::mutex register_mutex_;  // one registration at a time
  std::mutex mutex_;
  std::vector<DeviceState> states_;
};

}  // namespace

Status RunAgent(const AgentOptions& options, Link& link,
                const std::vector<std::unique_ptr<Device>>& devices,
                const Measurer& measure, std::stop_token stop) {
  if (devices.empty()) {
    return Fail(Code::kFailedPrecondition, "there is no device to measure on");
  }
  Agent agent(options, link, devices, measure, std::move(stop));
  agent.Run();
  return {};
}

}  // namespace ucudnn
