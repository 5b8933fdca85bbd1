#include "client/config/environment.h"

#include <cstdlib>

namespace ucudnn {

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

std::string DefaultCacheDirectory(const Environment& environment) {
  const auto xdg = environment("XDG_CACHE_HOME");
  if (xdg && xdg->starts_with('/')) return *xdg + "/ucudnn";
  const auto home = environment("HOME");
  if (home && home->starts_with('/')) return *home + "/.cache/ucudnn";
  return {};
}

}  // namespace ucudnn
