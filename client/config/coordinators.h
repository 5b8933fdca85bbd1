#ifndef UCUDNN_CLIENT_CONFIG_COORDINATORS_H_
#define UCUDNN_CLIENT_CONFIG_COORDINATORS_H_

// UCUDNN_COORDINATOR: where the coordinators are.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ucudnn {

// "host:port,host:port" as a list; spaces around commas do not count. IPv6
// addresses are written [::1]:7460. kInvalidArgument, starting with `source`,
// if it is empty or a part is not host:port.
Result<std::vector<std::string>> ParseCoordinators(std::string_view text,
                                                   std::string_view source);

// `text` itself if it is such a list; an error that names no source.
Result<std::string> CheckCoordinators(const std::string& text);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_CONFIG_COORDINATORS_H_
