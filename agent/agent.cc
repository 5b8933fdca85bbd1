#include "agent/agent.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "agent/device_states.h"
#include "base/service/backoff.h"
#include "base/service/log.h"
#include "base/text.h"
#include "proto/convert.h"

namespace ucudnn {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

// The id of the GPU that device `id` ("<GPU>/<slice>") is a slice of, or `id`.
std::string WholeDevice(const std::string& id) {
  return id.substr(0, id.find('/'));
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
        states_(devices_.size()) {
    for (const auto& device : devices_) {
      turns_.push_back(&turn_of_[WholeDevice(device->info().id)]);
    }
  }

  Status Run() {
    UCUDNN_RETURN_IF_ERROR(Register());
    is_registered_ = true;
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < devices_.size(); ++i) {
        threads.emplace_back([this, i] {
          Work(i);
          const std::lock_guard lock(mutex_);
          ++ended_;
          end_.notify_all();
        });
      }
      // Sends heartbeats until the agent leaves, so that leases stay alive.
      std::jthread heart([this](const std::stop_token& done) { Beat(done); });
      AwaitEnd();
      heart.request_stop();
      v1::LeaveRequest leave;
      leave.set_agent_id(options_.id);
      if (const auto left = link_.Leave(leave); !left) {
        spdlog::warn("event=leave_failed error={}",
                     Quoted(left.error().message));
      }
    }
    spdlog::info("event=stopped agent={}", options_.id);
    return states_.CheckAnyLeft();
  }

 private:
  // Waits until every device's thread has ended, or until `stop_grace` after
  // the agent was asked to stop.
  void AwaitEnd() {
    std::unique_lock lock(mutex_);
    const auto all_ended = [this] { return ended_ == devices_.size(); };
    end_.wait(lock, stop_, all_ended);
    end_.wait_for(lock, options_.stop_grace, all_ended);
  }

  // How long to wait for a coordinator that does not answer.
  milliseconds NextWait(Backoff* backoff) const {
    return backoff->Next() + PartOf(options_.reconnect_spread);
  }

  void TellAlive() const {
    if (options_.alive) options_.alive();
  }

  // Retries until it succeeds or the agent must stop. kAlreadyExists: another
  // machine has an agent of this name, unless this one worked before.
  Status Register() {
    const std::lock_guard lock(register_mutex_);
    v1::RegisterRequest request;
    request.set_agent_id(options_.id);
    request.set_host(options_.host);
    request.set_machine_id(options_.machine_id);
    request.set_version(options_.version);
    const auto add = [&](const DeviceInfo& info,
                         const std::string& conditions) -> v1::Device& {
      v1::Device& d = *request.add_devices();
      d.set_id(info.id);
      d.set_agent_id(options_.id);
      d.set_kind(ToString(info.kind));
      *d.mutable_kind_details() = ToProto(info.kind);
      d.set_driver(conditions);
      return d;
    };
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const std::string conditions = ConditionsOf(i);
      states_.SetRegistered(i, conditions);
      states_.Describe(i, &add(devices_[i]->info(), conditions));
    }
    for (const auto& [info, why] : options_.left_out) {
      v1::Device& d = add(info, info.driver);
      d.set_state("lost");
      d.set_state_reason(why);
    }
    Backoff backoff;
    while (!stop_.stop_requested()) {
      TellAlive();
      const auto response = link_.Register(request);
      if (response) {
        heartbeat_ = milliseconds(
            std::clamp<std::int64_t>(response->heartbeat_ms(), 50, 60'000));
        spdlog::info("event=registered agent={} devices={}", options_.id,
                     devices_.size());
        return {};
      }
      if (response.error().code == Code::kAlreadyExists && !is_registered_) {
        return tl::unexpected<Error>(response.error());
      }
      spdlog::warn("event=register_failed error={}",
                   Quoted(response.error().message));
      Pause(stop_, NextWait(&backoff));
    }
    return {};
  }

  // One device's thread: lease, measure, report.
  void Work(std::size_t index) {
    Device& device = *devices_[index];
    Backoff backoff;
    while (!stop_.stop_requested()) {
      if (!WaitUntilFree(index)) return;
      if (HasOtherConditions(index)) (void)Register();
      v1::LeaseTasksRequest request;
      request.set_agent_id(options_.id);
      request.set_device_id(device.info().id);
      request.set_max_tasks(options_.tasks_per_lease);
      request.set_takes_cross_checks(true);
      request.set_takes_device_models(TakesModel(index));
      const auto leased = link_.LeaseTasks(request);
      if (!leased) {
        spdlog::warn("event=lease_failed device={} error={}", device.info().id,
                     Quoted(leased.error().message));
        if (leased.error().code == Code::kNotFound) {
          (void)Register();
        } else {
          Pause(stop_, NextWait(&backoff));
        }
        continue;
      }
      backoff.Reset();
      if (leased->measure_device_model() && TakesModel(index)) {
        MeasureModel(index);
        if (states_.IsLost(index)) return;
        continue;
      }
      states_.SetLeases(index, leased->tasks());
      for (const v1::Task& task : leased->tasks()) {
        if (stop_.stop_requested()) break;
        if (!WaitUntilFree(index)) break;
        if (std::optional<v1::ReportTaskRequest> report =
                Measure(index, task, *leased)) {
          Report(*report);
        }
        states_.DropLease(index, task.id());
        if (states_.IsLost(index)) {
          GiveBack(index);
          return;
        }
      }
      if (leased->tasks().empty()) {
        Pause(stop_, milliseconds(std::clamp<std::int64_t>(
                         leased->poll_after_ms(), 10, 60'000)));
      }
    }
  }

  // Waits while somebody else computes on the device; false if the agent must
  // stop.
  bool WaitUntilFree(std::size_t index) {
    bool said = false;
    while (!stop_.stop_requested()) {
      const std::string busy_with = devices_[index]->BusyWith();
      states_.SetBusyWith(index, busy_with);
      if (busy_with.empty()) return true;
      if (!said) {
        spdlog::info("event=device_busy device={} with={}",
                     devices_[index]->info().id, Quoted(busy_with));
        said = true;
      }
      Pause(stop_, milliseconds(2000));
    }
    return false;
  }

  // The conditions of measurements on the device now.
  std::string ConditionsOf(std::size_t index) const {
    const DeviceInfo& info = devices_[index]->info();
    return options_.conditions ? options_.conditions(info) : info.driver;
  }

  // Whether they differ from those that the coordinator knows.
  bool HasOtherConditions(std::size_t index) {
    const std::string now = ConditionsOf(index);
    const std::string registered = states_.RegisteredWith(index);
    if (now == registered) return false;
    spdlog::info("event=conditions_changed device={} from={} to={}",
                 devices_[index]->info().id, Quoted(registered), Quoted(now));
    return true;
  }

  bool TakesModel(std::size_t index) const {
    return options_.measure_model && !states_.HasMeasuredModel(index);
  }

  // Measures a device's model and reports it. Does nothing if another device is
  // being measured, except wait for it: it may be of the same kind.
  void MeasureModel(std::size_t index) {
    std::unique_lock model_lock(model_mutex_, std::try_to_lock);
    if (!model_lock) {
      model_lock.lock();
      return;
    }
    Device& device = *devices_[index];
    v1::ReportDeviceModelRequest report;
    report.set_agent_id(options_.id);
    report.set_device_id(device.info().id);
    report.set_driver(ConditionsOf(index));
    const auto begun = SteadyClock::now();
    Result<DeviceModel> model = [&] {
      const std::lock_guard turn(*turns_[index]);
      return options_.measure_model(device, stop_);
    }();
    if (!model && model.error().code == Code::kCancelled) return;
    // Measured, but unknown under which conditions: once more.
    if (model && ConditionsOf(index) != report.driver()) return;
    states_.SetMeasuredModel(index);
    if (!model) {
      spdlog::warn("event=device_model_failed device={} error={}",
                   device.info().id, Quoted(model.error().message));
      if (model.error().code == Code::kDataLoss) {
        Lose(index, model.error().message);
      }
      return;
    }
    spdlog::info(
        "event=device_model device={} took_ms={}", device.info().id,
        std::chrono::duration_cast<milliseconds>(SteadyClock::now() - begun)
            .count());
    *report.mutable_model() = ToProto(*model);
    Repeat([&] { return link_.ReportDeviceModel(report); },
           fmt::format("device_model={}", device.info().id));
  }

  // Decodes a task.
  static Result<CampaignTask> Read(const v1::Task& task) {
    CampaignTask campaign;
    UCUDNN_ASSIGN_OR_RETURN(campaign.problem, ParseConvProblem(task.problem()));
    UCUDNN_ASSIGN_OR_RETURN(campaign.goal, ParseTaskGoal(task.goal()));
    campaign.batch = BatchSize(task.batch());
    campaign.max_workspace = Bytes(task.max_workspace_bytes());
    if (task.has_cross_check()) {
      const v1::CrossCheck& check = task.cross_check();
      campaign.cross_check = {{check.algorithm(), check.math(), {}},
                              Bytes(check.workspace_bytes())};
      UCUDNN_ASSIGN_OR_RETURN(campaign.cross_check->algorithm.precision,
                              ParsePrecision(check.precision()));
    }
    for (const v1::Measurement& measurement : task.known()) {
      UCUDNN_ASSIGN_OR_RETURN(MeasuredPoint point, FromProto(measurement));
      campaign.known.push_back(std::move(point));
    }
    return campaign;
  }

  Result<std::vector<MeasuredPoint>> MeasureTasks(
      Device& device, const v1::Task& task,
      const v1::LeaseTasksResponse& leased) {
    OtherTasksCampaign campaign;
    UCUDNN_ASSIGN_OR_RETURN(campaign.tasks, ParseOtherTasks(task.problem()));
    if (!options_.measure_tasks) {
      return Fail(Code::kUnimplemented,
                  "this agent measures nothing but convolutions");
    }
    const auto model = leased.networks().find(campaign.tasks.network);
    if (model != leased.networks().end()) campaign.model = model->second;
    campaign.batch = BatchSize(task.batch());
    if (task.has_cross_check()) {
      campaign.only = task.cross_check().algorithm();
    }
    return options_.measure_tasks(device, campaign, stop_);
  }

  // What every report of the task says.
  v1::ReportTaskRequest ReportOf(std::size_t index,
                                 const v1::Task& task) const {
    v1::ReportTaskRequest report;
    report.set_agent_id(options_.id);
    report.set_device_id(devices_[index]->info().id);
    report.set_task_id(task.id());
    report.set_lease_token(task.lease_token());
    report.set_epoch(task.epoch());
    report.set_kind(task.kind());
    report.set_problem(task.problem());
    return report;
  }

  // The report of one task; empty if the agent was stopped meanwhile. During a
  // long task, sends partial reports to the coordinator.
  std::optional<v1::ReportTaskRequest> Measure(
      std::size_t index, const v1::Task& task,
      const v1::LeaseTasksResponse& leased) {
    Device& device = *devices_[index];
    v1::ReportTaskRequest report = ReportOf(index, task);
    report.set_max_workspace_bytes(task.max_workspace_bytes());
    report.set_driver(ConditionsOf(index));
    if (task.has_cross_check())
      *report.mutable_cross_check() = task.cross_check();
    const DeviceInfo& info = device.info();
    v1::ReportTaskRequest partial = report;
    partial.set_partial(true);
    auto last_sent = SteadyClock::now();
    const auto send = [&] {
      // Sent once only: the final report holds the same points.
      if (const auto response = link_.ReportTask(partial); !response) {
        spdlog::warn("event=partial_report_failed task={} error={}", task.id(),
                     Quoted(response.error().message));
      }
      partial.clear_measurements();
      last_sent = SteadyClock::now();
    };
    const auto sink = [&](const std::vector<MeasuredPoint>& measured) {
      for (const MeasuredPoint& point : measured) {
        *partial.add_measurements() = ToProto(point);
      }
      if (SteadyClock::now() - last_sent >= options_.partial_report) send();
    };
    std::unique_lock turn(*turns_[index]);
    const auto points = [&]() -> Result<std::vector<MeasuredPoint>> {
      if (IsOtherTasks(task.problem())) {
        return MeasureTasks(device, task, leased);
      }
      UCUDNN_ASSIGN_OR_RETURN(const CampaignTask campaign, Read(task));
      return measure_(device, campaign, stop_, sink);
    }();
    const DeviceClocks clocks =
        options_.clocks ? options_.clocks(info) : DeviceClocks();
    turn.unlock();
    *report.mutable_clocks() = ToProto(clocks);
    const std::string conditions = ConditionsOf(index);
    if (conditions != report.driver()) {
      // It is unknown which points were measured under which conditions.
      report.set_error(
          fmt::format("the conditions changed meanwhile from '{}' to '{}'",
                      report.driver(), conditions));
      report.set_retryable(true);
      spdlog::warn("event=task_failed device={} problem={} batch={} error={}",
                   info.id, task.problem(), task.batch(),
                   Quoted(report.error()));
      return report;
    }
    if (points) {
      for (const MeasuredPoint& point : *points) {
        *report.add_measurements() = ToProto(point);
      }
      spdlog::info("event=measured device={} problem={} batch={} points={}",
                   info.id, task.problem(), task.batch(), points->size());
      return report;
    }
    const Error& error = points.error();
    // Points measured before the failure are valid.
    if (partial.measurements_size() > 0) send();
    if (error.code == Code::kCancelled) return std::nullopt;
    spdlog::error("event=task_failed device={} problem={} batch={} error={}",
                  info.id, task.problem(), task.batch(), Quoted(error.message));
    if (error.code == Code::kDataLoss) Lose(index, error.message);
    report.set_error(error.message.empty() ? std::string(CodeName(error.code))
                                           : Excerpt(error.message, 2000));
    report.set_retryable(error.code != Code::kUnimplemented &&
                         error.code != Code::kInvalidArgument);
    return report;
  }

  void Report(const v1::ReportTaskRequest& report) {
    Repeat([&] { return link_.ReportTask(report); },
           fmt::format("task={}", report.task_id()));
  }

  // Reports until the coordinator has acknowledged it. Drops a report that the
  // coordinator rejects: it will ask for the same again. `what` names it in the
  // log.
  template <class Call>
  void Repeat(const Call& report, const std::string& what) {
    Backoff backoff;
    std::optional<SteadyClock::time_point> give_up;
    while (true) {
      const auto response = report();
      if (response) return;
      const Code code = response.error().code;
      spdlog::warn("event=report_failed {} error={}", what,
                   Quoted(response.error().message));
      if (code == Code::kInvalidArgument || code == Code::kNotFound ||
          code == Code::kFailedPrecondition || code == Code::kUnimplemented) {
        return;
      }
      if (stop_.stop_requested()) {
        const auto now = SteadyClock::now();
        if (!give_up) give_up = now + options_.stop_grace;
        if (now >= *give_up) return;
        // A request to stop no longer shortens this wait.
        std::this_thread::sleep_for(backoff.Next());
      } else {
        Pause(stop_, NextWait(&backoff));
      }
    }
  }

  // How long until the next heartbeat: up to a quarter less than the interval,
  // or any part of it after one that failed. So agents that a busy coordinator
  // answered or refused together do not come back together.
  milliseconds NextBeat(bool answered) const {
    const double least = answered ? 0.75 : 0.25;
    return PartOf(heartbeat_, least + (1 - least) * Chance());
  }

  void Beat(const std::stop_token& done) {
    bool answered = true;
    while (true) {
      Pause(done, NextBeat(answered));
      if (done.stop_requested()) return;
      TellAlive();
      v1::HeartbeatRequest request;
      request.set_agent_id(options_.id);
      for (std::size_t i = 0; i < devices_.size(); ++i) {
        v1::Device& device = *request.add_devices();
        device.set_id(devices_[i]->info().id);
        states_.Describe(i, &device);
        states_.AddLeases(i, &request);
      }
      const auto response = link_.Heartbeat(request);
      answered = response.has_value();
      if (!response && response.error().code == Code::kNotFound) {
        (void)Register();
      }
    }
  }

  void Lose(std::size_t index, const std::string& why) {
    spdlog::error("event=device_lost device={} why={}",
                  devices_[index]->info().id, Quoted(why));
    states_.Lose(index, why);
  }

  // Gives the tasks of a lost device back for others at once.
  void GiveBack(std::size_t index) {
    for (const v1::Task& task : states_.TakeLeases(index)) {
      v1::ReportTaskRequest report = ReportOf(index, task);
      report.set_error("the device was lost before the task was measured");
      report.set_retryable(true);
      Report(report);
    }
  }

  const AgentOptions& options_;
  Link& link_;
  const std::vector<std::unique_ptr<Device>>& devices_;
  const Measurer& measure_;
  std::stop_token stop_;
  std::atomic<milliseconds> heartbeat_{milliseconds(2000)};
  std::mutex register_mutex_;  // one registration at a time
  std::atomic<bool> is_registered_ = false;
  std::mutex model_mutex_;  // one device model at a time
  DeviceStates states_;
  std::mutex mutex_;
  std::size_t ended_ = 0;  // how many of the devices' threads; under mutex_
  std::condition_variable_any end_;
  // One per GPU, held while one of its slices is measured, since slices disturb
  // each other.
  std::map<std::string, std::mutex> turn_of_;
  std::vector<std::mutex*> turns_;  // by device
};

}  // namespace

Status RunAgent(const AgentOptions& options, Link& link,
                const std::vector<std::unique_ptr<Device>>& devices,
                const Measurer& measure, std::stop_token stop) {
  if (devices.empty()) {
    return Fail(Code::kFailedPrecondition, "there is no device to measure on");
  }
  return Agent(options, link, devices, measure, std::move(stop)).Run();
}

}  // namespace ucudnn
