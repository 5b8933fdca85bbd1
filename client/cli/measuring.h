#ifndef UCUDNN_CLIENT_CLI_MEASURING_H_
#define UCUDNN_CLIENT_CLI_MEASURING_H_

// Following the measurements that a plan needs.

#include <chrono>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "client/rpc/connection.h"

namespace ucudnn::ctl {

// Asks for the measurements of `request`, and shows how far they are on
// standard error. Returns when all of it is measured or has failed to be, or
// after `limit`. kCancelled if the connection is stopped; the measurements go
// on.
Status AwaitMeasured(Connection& connection, v1::MeasureRequest request,
                     std::optional<std::chrono::seconds> limit = std::nullopt);

// `error`, with what goes on without the command if the call was stopped.
tl::unexpected<Error> LeftBehind(Error error, std::string_view what);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_MEASURING_H_
