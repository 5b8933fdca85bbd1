#ifndef UCUDNN_CLIENT_CONFIG_ENVIRONMENT_H_
#define UCUDNN_CLIENT_CONFIG_ENVIRONMENT_H_

// The environment that configures the client library, as a value that tests
// set.

#include <functional>
#include <optional>
#include <string>

namespace ucudnn {

// The value of a variable, or nothing.
using Environment =
    std::function<std::optional<std::string>(const std::string& name)>;
Environment ProcessEnvironment();

// $XDG_CACHE_HOME/ucudnn, else $HOME/.cache/ucudnn; empty where neither is an
// absolute path.
std::string DefaultCacheDirectory(const Environment& environment);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_CONFIG_ENVIRONMENT_H_
