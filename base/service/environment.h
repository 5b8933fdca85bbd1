#ifndef UCUDNN_BASE_SERVICE_ENVIRONMENT_H_
#define UCUDNN_BASE_SERVICE_ENVIRONMENT_H_

// The environment of the process as a value, so that tests can set it.

#include <functional>
#include <optional>
#include <string>

namespace ucudnn {

// Returns the variable's value, if it is set.
using Environment =
    std::function<std::optional<std::string>(const std::string& name)>;
Environment ProcessEnvironment();

}  // namespace ucudnn

#endif  // UCUDNN_BASE_SERVICE_ENVIRONMENT_H_
