#ifndef UCUDNN_BASE_SERVICE_LOG_H_
#define UCUDNN_BASE_SERVICE_LOG_H_

// The daemons' log: one event per line on standard error, as key=value pairs
// after the time and the level.
//
//   spdlog::warn("event=leave_failed error={}", Quoted(error.message));

#include <string>
#include <string_view>

namespace ucudnn {

// Makes spdlog's default logger that of the daemon `program`.
void StartLog(const std::string& program, const std::string& level);

// A value that may hold anything, in double quotes: quotes and backslashes are
// escaped by a backslash, line breaks and other control characters become \n or
// \xNN, so that an event stays one line and its values can be told apart.
std::string Quoted(std::string_view value);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_LOG_H_
