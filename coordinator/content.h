#ifndef UCUDNN_COORDINATOR_CONTENT_H_
#define UCUDNN_COORDINATOR_CONTENT_H_

// How the coordinator keeps and names content.

#include <string>
#include <string_view>

#include "base/result.h"
#include "coordinator/store/store.h"
#include "ucudnn/v1/types.pb.h"

namespace ucudnn {

// In hexadecimal.
std::string Sha256(std::string_view text);

// kDataLoss if the stored layers cannot be read back.
Result<v1::Network> ToProto(const NetworkRecord& record);

// The stored plan, with its id. kDataLoss if it cannot be read back.
Result<v1::Plan> ToProto(const PlanRecord& record);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_CONTENT_H_
