#include "coordinator/agents/drivers.h"

#include <set>

namespace ucudnn {

Result<std::vector<std::string>> DriversOf(AgentStore& agents,
                                           const std::string& kind) {
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, agents.ListDevices(kind));
  std::set<std::string> drivers;
  for (const DeviceRecord& device : devices) {
    if (device.state != DeviceState::kLost) drivers.insert(device.driver);
  }
  return std::vector<std::string>(drivers.begin(), drivers.end());
}

}  // namespace ucudnn
