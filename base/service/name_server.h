#ifndef UCUDNN_BASE_SERVICE_NAME_SERVER_H_
#define UCUDNN_BASE_SERVICE_NAME_SERVER_H_

#include <chrono>
#include <string>
#include <vector>

#include "base/result.h"

namespace ucudnn {

// Whether a host has to be looked up: it is no folder of a socket, no address.
bool IsHostName(const std::string& host);

// Waits until one of the names was looked up, whatever the answer: who connects
// then gets it too. kUnavailable after `most`; the system itself waits 10 s for
// each name server and each search domain. The thread that asks is then left
// behind.
Status AwaitNameServer(const std::vector<std::string>& names,
                       std::chrono::seconds most);

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_NAME_SERVER_H_
