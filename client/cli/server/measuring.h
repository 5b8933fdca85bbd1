#ifndef UCUDNN_CLIENT_CLI_SERVER_MEASURING_H_
#define UCUDNN_CLIENT_CLI_SERVER_MEASURING_H_

// Waits for the measurements that a plan needs.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "client/cli/server/server.h"

namespace ucudnn::ctl {

// Requests the measurements of `request`, cancelled ones too, and shows their
// progress on standard error. Returns true when each has completed or failed,
// or false after `limit`. kFailedPrecondition if some were cancelled meanwhile;
// kCancelled if the connection is stopped: nothing more is requested, and the
// measurements continue, as the error says.
Result<bool> AwaitMeasured(
    Connection& connection, v1::MeasureRequest request,
    std::optional<std::chrono::seconds> limit = std::nullopt);

// How to go on with what a campaign measures: "campaign 12 goes on with 56
// measurements; `ucudnn cancel 12` ends it". `campaign` may be 0.
std::string GoesOn(std::int64_t campaign, std::int64_t missing);

// What a dry run tells.
std::string CostText(const v1::MeasureProgress& progress);

// `error`; if the call was stopped, followed by `what`, which continues without
// the command.
tl::unexpected<Error> LeftBehind(Error error, std::string_view what);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_SERVER_MEASURING_H_
