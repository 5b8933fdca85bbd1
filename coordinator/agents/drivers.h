#ifndef UCUDNN_COORDINATOR_AGENTS_DRIVERS_H_
#define UCUDNN_COORDINATOR_AGENTS_DRIVERS_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/agents/agent_store.h"

namespace ucudnn {

// The drivers of the kind's usable devices, sorted. Measurements under other
// drivers are stale; none is if the list is empty.
Result<std::vector<std::string>> DriversOf(AgentStore& agents,
                                           const std::string& kind);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_AGENTS_DRIVERS_H_
