#ifndef UCUDNN_TESTS_AGENT_SCRIPTED_LINK_H_
#define UCUDNN_TESTS_AGENT_SCRIPTED_LINK_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "agent/link.h"

namespace ucudnn::test {

// An in-memory coordinator that answers from scripts and wakes up the test.
class ScriptedLink final : public Link {
 public:
  Result<v1::RegisterResponse> Register(
      const v1::RegisterRequest& request) override {
    const std::lock_guard lock(mutex_);
    ++registrations_;
    registered_ = request;
    changed_.notify_all();
    if (Result<int> scripted = Next(&register_errors); !scripted) {
      return tl::unexpected<Error>(scripted.error());
    }
    v1::RegisterResponse response;
    response.set_heartbeat_ms(50);
    return response;
  }
  Result<v1::LeaseTasksResponse> LeaseTasks(
      const v1::LeaseTasksRequest& request) override {
    const std::lock_guard lock(mutex_);
    if (Result<int> scripted = Next(&lease_errors); !scripted) {
      return tl::unexpected<Error>(scripted.error());
    }
    v1::LeaseTasksResponse response;
    response.set_poll_after_ms(10);
    takes_device_models_.push_back(request.takes_device_models());
    if (asks_for_models > 0 && request.takes_device_models()) {
      --asks_for_models;
      response.set_measure_device_model(true);
      return response;
    }
    for (const auto& [hash, model] : networks) {
      (*response.mutable_networks())[hash] = model;
    }
    if (!tasks.empty()) {
      *response.add_tasks() = tasks.front();
      leased_.push_back(tasks.front());
      tasks.pop_front();
      changed_.notify_all();
    }
    return response;
  }
  Result<v1::ReportTaskResponse> ReportTask(
      const v1::ReportTaskRequest& request) override {
    const std::lock_guard lock(mutex_);
    ++report_tries_;
    if (Result<int> scripted = Next(&report_errors); !scripted) {
      changed_.notify_all();
      return tl::unexpected<Error>(scripted.error());
    }
    reports_.push_back(request);
    if (retry_failed && !request.error().empty() && request.retryable()) {
      for (const v1::Task& task : leased_) {
        if (task.id() == request.task_id()) tasks.push_back(task);
      }
    }
    changed_.notify_all();
    return v1::ReportTaskResponse();
  }
  Result<v1::ReportDeviceModelResponse> ReportDeviceModel(
      const v1::ReportDeviceModelRequest& request) override {
    const std::lock_guard lock(mutex_);
    models_.push_back(request);
    changed_.notify_all();
    return v1::ReportDeviceModelResponse();
  }
  Result<v1::HeartbeatResponse> Heartbeat(
      const v1::HeartbeatRequest& request) override {
    const std::lock_guard lock(mutex_);
    heartbeats_.push_back(request);
    changed_.notify_all();
    return v1::HeartbeatResponse();
  }
  Result<v1::LeaveResponse> Leave(const v1::LeaveRequest&) override {
    const std::lock_guard lock(mutex_);
    left_ = true;
    changed_.notify_all();
    return v1::LeaveResponse();
  }

  // Waits, for at most a minute, until `condition` holds.
  template <class Condition>
  bool Await(const Condition& condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), condition);
  }

  std::deque<v1::Task> tasks;
  std::map<std::string, std::string> networks;  // models by hash
  int asks_for_models = 0;    // how often to ask for a device model
  bool retry_failed = false;  // lease them again, as a coordinator would
  std::deque<Error> register_errors;
  std::deque<Error> lease_errors;
  std::deque<Error> report_errors;
  v1::RegisterRequest registered_;
  std::vector<v1::Task> leased_;
  std::vector<v1::ReportTaskRequest> reports_;
  std::vector<v1::HeartbeatRequest> heartbeats_;
  std::vector<v1::ReportDeviceModelRequest> models_;
  std::vector<bool> takes_device_models_;  // by lease
  int registrations_ = 0;
  int report_tries_ = 0;
  bool left_ = false;

 private:
  static Result<int> Next(std::deque<Error>* errors) {
    if (errors->empty()) return 0;
    const Error error = errors->front();
    errors->pop_front();
    if (error.code == Code::kOk) return 0;
    return tl::unexpected<Error>(error);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace ucudnn::test

#endif  // UCUDNN_TESTS_AGENT_SCRIPTED_LINK_H_
