#ifndef UCUDNN_CLIENT_CONFIG_ENVIRONMENT_H_
#define UCUDNN_CLIENT_CONFIG_ENVIRONMENT_H_

// The environment of the process as a value, so that tests can set it.

#include <functional>
#include <optional>
#include <string>

namespace ucudnn {

// Returns the variable's value, if it is set.
using Environment =
    std::function<std::optional<std::string>(const std::string& name)>;
Environment ProcessEnvironment();

// $XDG_CACHE_HOME/ucudnn, else $HOME/.cache/ucudnn; empty if neither is an
// absolute path.
std::string DefaultCacheDirectory(const Environment& environment);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_CONFIG_ENVIRONMENT_H_
