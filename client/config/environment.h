#ifndef UCUDNN_CLIENT_CONFIG_ENVIRONMENT_H_
#define UCUDNN_CLIENT_CONFIG_ENVIRONMENT_H_

// What environments say to all programs.

#include <string>

#include "base/service/environment.h"

namespace ucudnn {

// $XDG_CACHE_HOME/ucudnn, else $HOME/.cache/ucudnn; empty if neither is an
// absolute path.
std::string DefaultCacheDirectory(const Environment& environment);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_CONFIG_ENVIRONMENT_H_
