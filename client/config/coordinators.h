#ifndef UCUDNN_CLIENT_CONFIG_COORDINATORS_H_
#define UCUDNN_CLIENT_CONFIG_COORDINATORS_H_

// Parses UCUDNN_COORDINATOR, a list of coordinators. Most programs speak gRPC
// and take host:port alone; the drop-in libraries ask over REST and also take
// URLs.

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

// As ParseCoordinators, for programs that ask by REST: an entry may also be
// http://host:port or https://host:port. The error names no source.
Result<std::vector<std::string>> ParseRestCoordinators(const std::string& text);

// Where a coordinator of such a list serves REST, as host:port: what its URL
// says, or port 7461 beside gRPC's port 7460, the defaults. kInvalidArgument,
// telling what to set, for another port of gRPC.
Result<std::string> RestAddress(std::string_view coordinator);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_CONFIG_COORDINATORS_H_
