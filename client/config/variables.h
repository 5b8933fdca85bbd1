#ifndef UCUDNN_CLIENT_CONFIG_VARIABLES_H_
#define UCUDNN_CLIENT_CONFIG_VARIABLES_H_

// The environment variables of the client library. Each has its name, parser
// and default only here. Sessions (client/session/config.h), the drop-in handle
// and the preload shim (client/config/dropin_settings.h) read the same
// variables.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/plan/plan.h"
#include "base/result.h"
#include "base/text.h"
#include "base/units.h"
#include "client/config/coordinators.h"
#include "client/config/environment.h"

namespace ucudnn {

template <class T>
struct Variable {
  using Value = T;
  const char* name;
  Result<T> (*parse)(const std::string& text);
};

// The variable's value; nullopt if it is unset or empty. The parser's error,
// prefixed with the name.
template <class T>
Result<std::optional<T>> ReadVariable(const Environment& environment,
                                      const Variable<T>& variable) {
  const std::optional<std::string> text = environment(variable.name);
  if (!text || text->empty()) return std::optional<T>();
  Result<T> value = variable.parse(*text);
  if (!value) return Within(variable.name, std::move(value).error());
  return std::optional<T>(*std::move(value));
}

namespace internal {

inline Result<std::string> AsIs(const std::string& text) { return text; }

inline Result<bool> ParseSwitch(const std::string& text) {
  if (text == "1") return true;
  if (text == "0") return false;
  return Fail(Code::kInvalidArgument, "'{}' is neither 0 nor 1", Excerpt(text));
}

inline Result<Bytes> ParseSize(const std::string& text) {
  return ParseBytes(text);
}

inline Result<BatchPolicy> ParsePolicy(const std::string& text) {
  return ParseBatchPolicy(text);
}

}  // namespace internal

// For each kernel. The default is kDefaultWorkspaceLimit in sessions; in
// drop-ins, what cuDNN's own choice takes, but at least kDefaultWorkspaceLimit.
inline constexpr Variable<Bytes> kWorkspaceLimitVariable = {
    "UCUDNN_WORKSPACE_LIMIT", internal::ParseSize};
inline constexpr Bytes kDefaultWorkspaceLimit = 64_MiB;
// For all kernels together, instead; no limit by default.
inline constexpr Variable<Bytes> kTotalWorkspaceVariable = {
    "UCUDNN_TOTAL_WORKSPACE_SIZE", internal::ParseSize};
// The device memory that captured graphs may take; kDefaultGraphMemory, 0: none
// is captured.
inline constexpr Variable<Bytes> kGraphMemoryVariable = {"UCUDNN_GRAPH_MEMORY",
                                                         internal::ParseSize};
inline constexpr Bytes kDefaultGraphMemory = 64_MiB;
// powerOfTwo by default.
inline constexpr Variable<BatchPolicy> kBatchPolicyVariable = {
    "UCUDNN_BATCH_SIZE_POLICY", internal::ParsePolicy};
// "host:port,..."; none by default.
inline constexpr Variable<std::string> kCoordinatorVariable = {
    "UCUDNN_COORDINATOR", CheckCoordinators};
// The same in programs that ask by REST.
inline constexpr Variable<std::vector<std::string>> kRestCoordinatorVariable = {
    kCoordinatorVariable.name, ParseRestCoordinators};
// File paths; none by default.
inline constexpr Variable<std::string> kPlanFileVariable = {"UCUDNN_PLAN_FILE",
                                                            internal::AsIs};
inline constexpr Variable<std::string> kNetworkFileVariable = {
    "UCUDNN_NETWORK_FILE", internal::AsIs};
// Default: DefaultCacheDirectory.
inline constexpr Variable<std::string> kCacheDirectoryVariable = {
    "UCUDNN_CACHE_DIR", internal::AsIs};
// 0 or 1; 0 by default.
inline constexpr Variable<bool> kDisableVariable = {"UCUDNN_DISABLE",
                                                    internal::ParseSwitch};
inline constexpr Variable<bool> kDeterministicVariable = {
    "UCUDNN_DETERMINISTIC", internal::ParseSwitch};
inline constexpr Variable<bool> kBranchesVariable = {"UCUDNN_BRANCHES",
                                                     internal::ParseSwitch};
inline constexpr Variable<bool> kAutoReplanVariable = {"UCUDNN_AUTO_REPLAN",
                                                       internal::ParseSwitch};
inline constexpr Variable<bool> kVerboseVariable = {"UCUDNN_VERBOSE",
                                                    internal::ParseSwitch};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_CONFIG_VARIABLES_H_
