#ifndef UCUDNN_CLIENT_CLI_MEASURING_H_
#define UCUDNN_CLIENT_CLI_MEASURING_H_

// Following the measurements that a plan needs.

#include <chrono>
#include <optional>

#include "base/result.h"
#include "client/connection.h"

namespace ucudnn::ctl {

// Has made what `request` asks for, and shows how far it is on standard error.
// Returns when all of it is measured or has failed to be, or after `limit`.
// kCancelled if somebody stops it; the measurements go on.
Status AwaitMeasured(Connection& connection, v1::MeasureRequest request,
                     std::optional<std::chrono::seconds> limit = std::nullopt);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_MEASURING_H_
