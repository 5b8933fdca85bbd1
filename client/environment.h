#ifndef UCUDNN_CLIENT_ENVIRONMENT_H_
#define UCUDNN_CLIENT_ENVIRONMENT_H_

// The environment that configures the client library, as a value that tests
// set.

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

// Of each kernel, where nobody names a workspace limit.
inline constexpr Bytes kDefaultWorkspaceLimit = 64_MiB;

// The value of a variable, or nothing.
using Environment =
    std::function<std::optional<std::string>(const std::string& name)>;
Environment ProcessEnvironment();

// $XDG_CACHE_HOME/ucudnn, else $HOME/.cache/ucudnn; empty where neither is an
// absolute path.
std::string DefaultCacheDirectory(const Environment& environment);

// Sets `value` from the variable; whether it was there. One that is set but
// empty counts as not set. The parser's error, starting with the name.
template <class T, class Parse>
Result<bool> FromEnvironment(const Environment& environment,
                             const std::string& name, Parse parse, T* value) {
  const std::optional<std::string> text = environment(name);
  if (!text || text->empty()) return false;
  Result<T> parsed = parse(*text);
  if (!parsed) return Within(name, std::move(parsed).error());
  *value = *std::move(parsed);
  return true;
}

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_ENVIRONMENT_H_
