#ifndef UCUDNN_BASE_SERVICE_NAME_SERVER_H_
#define UCUDNN_BASE_SERVICE_NAME_SERVER_H_

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"

namespace ucudnn {

// Whether a host has to be looked up: it is no folder of a socket, no address.
bool IsHostName(const std::string& host);

// Looks up the names in turn until a name server answers, whether it knows the
// name or not, so that connecting afterwards does not wait long for one.
// kUnavailable if none answers within `most`: the system's own wait is 10 s for
// each server and each search domain. The lookup runs on a thread of its own,
// which goes on after that.
Status AwaitNameServer(const std::vector<std::string>& names,
                       std::chrono::seconds most);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_NAME_SERVER_H_
