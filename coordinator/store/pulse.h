#ifndef UCUDNN_COORDINATOR_STORE_PULSE_H_
#define UCUDNN_COORDINATOR_STORE_PULSE_H_

#include <cstdint>
#include <string>

namespace ucudnn {

// How often the database has heard of an agent or a job. Whether one is silent
// shows in a number that stays, whatever the clocks of coordinators say.
struct Pulse {
  std::string id;
  std::int64_t beats = 0;

  friend bool operator==(const Pulse&, const Pulse&) = default;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_PULSE_H_
