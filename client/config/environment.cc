#include "client/config/environment.h"

namespace ucudnn {

std::string DefaultCacheDirectory(const Environment& environment) {
  const auto xdg = environment("XDG_CACHE_HOME");
  if (xdg && xdg->starts_with('/')) return *xdg + "/ucudnn";
  const auto home = environment("HOME");
  if (home && home->starts_with('/')) return *home + "/.cache/ucudnn";
  return {};
}

}  // namespace ucudnn
