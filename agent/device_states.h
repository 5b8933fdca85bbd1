#ifndef UCUDNN_AGENT_DEVICE_STATES_H_
#define UCUDNN_AGENT_DEVICE_STATES_H_

// What an agent knows of its devices and tells the coordinator: whether each is
// lost or busy, which leases it holds, and the conditions it registered with.

#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "ucudnn/v1/agent.pb.h"

namespace ucudnn {

// Devices are counted from 0. Thread-safe.
class DeviceStates {
 public:
  explicit DeviceStates(std::size_t devices) : states_(devices) {}

  // The device registers with these conditions of its measurements. From then
  // on its model may be asked for again.
  void SetRegistered(std::size_t device, const std::string& conditions);
  // The conditions it registered with last.
  std::string RegisteredWith(std::size_t device) const;

  // Whether its model was measured, or failed to be, since it registered.
  bool HasMeasuredModel(std::size_t device) const;
  void SetMeasuredModel(std::size_t device);

  // Who else computes on the device; empty if nobody does.
  void SetBusyWith(std::size_t device, const std::string& busy_with);

  // The device is unusable from now on.
  void Lose(std::size_t device, const std::string& why);
  bool IsLost(std::size_t device) const;
  // kDataLoss, naming the last one's reason, if all are lost.
  Status CheckAnyLeft() const;

  // The device holds the leases of these tasks, apart from cross-checks, which
  // have none.
  void SetLeases(std::size_t device,
                 const google::protobuf::RepeatedPtrField<v1::Task>& tasks);
  void DropLease(std::size_t device, std::int64_t task);
  // Returns its leased tasks, without what is known of them; it holds none
  // afterwards.
  std::vector<v1::Task> TakeLeases(std::size_t device);

  // Fills in the state and its reason.
  void Describe(std::size_t device, v1::Device* description) const;
  // Appends the device's leases.
  void AddLeases(std::size_t device, v1::HeartbeatRequest* beat) const;

 private:
  struct State {
    std::string registered_with;
    bool has_measured_model = false;
    std::string busy_with;
    std::string lost;  // why; empty: it is not
    std::vector<v1::Task> leases;
  };

  mutable std::mutex mutex_;
  std::vector<State> states_;
};

}  // namespace ucudnn

#endif  // UCUDNN_AGENT_DEVICE_STATES_H_
