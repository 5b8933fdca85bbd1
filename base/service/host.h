#ifndef UCUDNN_BASE_SERVICE_HOST_H_
#define UCUDNN_BASE_SERVICE_HOST_H_

#include <string>

namespace ucudnn {

// This machine's name, as `hostname` prints it; "unknown" if it has none.
std::string HostName();

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_HOST_H_
