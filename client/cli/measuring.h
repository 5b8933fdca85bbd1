#ifndef UCUDNN_CLIENT_CLI_MEASURING_H_
#define UCUDNN_CLIENT_CLI_MEASURING_H_

// Waits for the measurements that a plan needs.

#include <chrono>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "client/rpc/connection.h"

namespace ucudnn::ctl {

// Requests the measurements of `request` and shows their progress on standard
// error. Returns when each has completed or failed, or after `limit`.
// kCancelled if the connection is stopped; the measurements continue.
Status AwaitMeasured(Connection& connection, v1::MeasureRequest request,
                     std::optional<std::chrono::seconds> limit = std::nullopt);

// `error`; if the call was stopped, followed by `what`, which continues without
// the command.
tl::unexpected<Error> LeftBehind(Error error, std::string_view what);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_MEASURING_H_
