#include "agent/device_states.h"

#include <algorithm>
#include <utility>

namespace ucudnn {

void DeviceStates::SetRegistered(std::size_t device,
                                 const std::string& conditions) {
  const std::lock_guard lock(mutex_);
  states_[device].registered_with = conditions;
  states_[device].has_measured_model = false;
}

std::string DeviceStates::RegisteredWith(std::size_t device) const {
  const std::lock_guard lock(mutex_);
  return states_[device].registered_with;
}

bool DeviceStates::HasMeasuredModel(std::size_t device) const {
  const std::lock_guard lock(mutex_);
  return states_[device].has_measured_model;
}

void DeviceStates::SetMeasuredModel(std::size_t device) {
  const std::lock_guard lock(mutex_);
  states_[device].has_measured_model = true;
}

void DeviceStates::SetBusyWith(std::size_t device,
                               const std::string& busy_with) {
  const std::lock_guard lock(mutex_);
  states_[device].busy_with = busy_with;
}

void DeviceStates::Lose(std::size_t device, const std::string& why) {
  const std::lock_guard lock(mutex_);
  states_[device].lost = why;
}

bool DeviceStates::IsLost(std::size_t device) const {
  const std::lock_guard lock(mutex_);
  return !states_[device].lost.empty();
}

Status DeviceStates::CheckAnyLeft() const {
  const std::lock_guard lock(mutex_);
  const auto usable = [](const State& state) { return state.lost.empty(); };
  if (std::ranges::any_of(states_, usable)) return {};
  return Fail(Code::kDataLoss, "every device is lost; the last: {}",
              states_.back().lost);
}

void DeviceStates::SetLeases(
    std::size_t device,
    const google::protobuf::RepeatedPtrField<v1::Task>& tasks) {
  const std::lock_guard lock(mutex_);
  std::vector<v1::Task>& leases = states_[device].leases;
  leases.clear();
  for (const v1::Task& task : tasks) {
    if (task.has_cross_check()) continue;
    leases.push_back(task);
    leases.back().clear_known();
  }
}

void DeviceStates::DropLease(std::size_t device, std::int64_t task) {
  const std::lock_guard lock(mutex_);
  std::erase_if(states_[device].leases,
                [&](const v1::Task& leased) { return leased.id() == task; });
}

std::vector<v1::Task> DeviceStates::TakeLeases(std::size_t device) {
  const std::lock_guard lock(mutex_);
  return std::exchange(states_[device].leases, {});
}

void DeviceStates::Describe(std::size_t device, v1::Device* description) const {
  const std::lock_guard lock(mutex_);
  const State& state = states_[device];
  description->set_state(!state.lost.empty()       ? "lost"
                         : state.busy_with.empty() ? "idle"
                                                   : "busy");
  description->set_state_reason(!state.lost.empty() ? state.lost
                                                    : state.busy_with);
}

void DeviceStates::AddLeases(std::size_t device,
                             v1::HeartbeatRequest* beat) const {
  const std::lock_guard lock(mutex_);
  for (const v1::Task& task : states_[device].leases) {
    v1::TaskLease& lease = *beat->add_leases();
    lease.set_task_id(task.id());
    lease.set_lease_token(task.lease_token());
  }
}

}  // namespace ucudnn
