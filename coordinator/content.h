#ifndef UCUDNN_COORDINATOR_CONTENT_H_
#define UCUDNN_COORDINATOR_CONTENT_H_

// Stored networks and plans as messages, and the hashes that identify them.

#include <string>
#include <string_view>

#include "base/result.h"
#include "coordinator/store/plans.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// In hexadecimal digits.
std::string Sha256(std::string_view text);

// kDataLoss if the stored layers cannot be read back.
Result<v1::Network> ToProto(const NetworkRecord& record);

// The plan with its id. kDataLoss if the stored body cannot be read back.
Result<v1::Plan> ToProto(const PlanRecord& record);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_CONTENT_H_
