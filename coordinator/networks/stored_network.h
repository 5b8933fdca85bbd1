#ifndef UCUDNN_COORDINATOR_NETWORKS_STORED_NETWORK_H_
#define UCUDNN_COORDINATOR_NETWORKS_STORED_NETWORK_H_

// Stored networks as messages, and the hashes that identify networks and plans.

#include <string>
#include <string_view>

#include "base/result.h"
#include "coordinator/networks/network_store.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// In hexadecimal digits.
std::string Sha256(std::string_view text);

// kDataLoss if the stored layers cannot be read back.
Result<v1::Network> ToProto(const NetworkRecord& record);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_NETWORKS_STORED_NETWORK_H_
