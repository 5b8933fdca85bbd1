#ifndef UCUDNN_CLIENT_CONFIG_COORDINATORS_H_
#define UCUDNN_CLIENT_CONFIG_COORDINATORS_H_

// Parses UCUDNN_COORDINATOR, the list of coordinators.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ucudnn {

// Splits "host:port,host:port"; spaces around commas are ignored. IPv6
// addresses are written [::1]:7460. kInvalidArgument, starting with `source`,
// if the list is empty or an entry is not host:port.
Result<std::vector<std::string>> ParseCoordinators(std::string_view text,
                                                   std::string_view source);

// Returns `text` if it is such a list; the error names no source.
Result<std::string> CheckCoordinators(const std::string& text);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_CONFIG_COORDINATORS_H_
