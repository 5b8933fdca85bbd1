#ifndef UCUDNN_COORDINATOR_HEARTBEATS_H_
#define UCUDNN_COORDINATOR_HEARTBEATS_H_

// Heartbeats on their way to the store. Most say nothing new, and each alone
// would cost a durable commit or two; so they are gathered and written
// together. One that does say something, an agent's first to this process or a
// device's other state, is written at once.
//
// Nothing that was acknowledged as done is kept here: if the process dies, the
// store has the agents last seen one Flush ago, and the next heartbeat makes up
// for it. Flush is to be called much more often than agents or leases expire.
//
// Thread-safe.

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "coordinator/store/store.h"

namespace ucudnn {

class Heartbeats {
 public:
  // `store` must outlive this. Leases last `lease_ms` from when they are heard
  // of.
  Heartbeats(Store& store, std::int64_t lease_ms)
      : store_(store), lease_ms_(lease_ms) {}

  // An agent lives and holds these leases. kNotFound: it is not registered;
  // that may be noticed one heartbeat late.
  Status Take(AgentBeat beat, const std::vector<LeaseRef>& leases);

  // Writes what was gathered; on an error keeps it for the next time.
  Status Flush();

  // To be called before a write that says more of the agent than its
  // heartbeats so far do: these are forgotten, and the next one is written at
  // once. None is being written while the guard lives.
  [[nodiscard]] std::unique_lock<std::mutex> Forget(const std::string& agent);

 private:
  // With writing_ held.
  Status Write(const std::map<std::string, AgentBeat>& beats,
               const std::map<std::string, std::vector<LeaseRef>>& leases);

  Store& store_;
  const std::int64_t lease_ms_;
  std::mutex writing_;  // held while the store is written; before mutex_
  std::mutex mutex_;    // guards the rest
  std::map<std::string, AgentBeat> gathered_;
  std::map<std::string, std::vector<LeaseRef>> leases_;
  // What the store has been told of each agent's devices.
  std::map<std::string, std::vector<DeviceStatus>> told_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_HEARTBEATS_H_
