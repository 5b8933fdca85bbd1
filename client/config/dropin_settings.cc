#include "client/config/dropin_settings.h"

#include <filesystem>
#include <utility>

namespace ucudnn {
namespace {

// Keeps the default in `value` if the variable is not set.
template <class T, class Value>
Status Take(const Environment& environment, const Variable<T>& variable,
            Value* value) {
  UCUDNN_ASSIGN_OR_RETURN(auto read, ReadVariable(environment, variable));
  if (read) *value = *std::move(read);
  return {};
}

}  // namespace

Result<DropInSettings> ResolveDropInSettings(const Environment& environment) {
  DropInSettings settings;
  settings.cache_dir = DefaultCacheDirectory(environment);
  const auto take = [&](const auto& variable, auto* value) {
    return Take(environment, variable, value);
  };
  UCUDNN_RETURN_IF_ERROR(take(kDisableVariable, &settings.disabled));
  UCUDNN_RETURN_IF_ERROR(
      take(kWorkspaceLimitVariable, &settings.workspace_limit));
  UCUDNN_RETURN_IF_ERROR(
      take(kTotalWorkspaceVariable, &settings.total_workspace));
  UCUDNN_RETURN_IF_ERROR(take(kGraphMemoryVariable, &settings.graph_memory));
  UCUDNN_RETURN_IF_ERROR(
      take(kRestCoordinatorVariable, &settings.coordinators));
  settings.credentials = CredentialsFrom(environment);
  UCUDNN_RETURN_IF_ERROR(take(kBatchPolicyVariable, &settings.policy));
  UCUDNN_RETURN_IF_ERROR(take(kPlanFileVariable, &settings.plan_file));
  if (settings.total_workspace > Bytes()) {
    settings.network_file = settings.plan_file;
  }
  UCUDNN_RETURN_IF_ERROR(take(kNetworkFileVariable, &settings.network_file));
  UCUDNN_RETURN_IF_ERROR(take(kCacheDirectoryVariable, &settings.cache_dir));
  UCUDNN_RETURN_IF_ERROR(take(kDeterministicVariable, &settings.deterministic));
  UCUDNN_RETURN_IF_ERROR(take(kBranchesVariable, &settings.branches));
  if (settings.branches && !settings.cache_dir.empty()) {
    // What was measured without them is not all there is to choose from.
    settings.cache_dir = std::filesystem::path(settings.cache_dir) / "branches";
  }
  UCUDNN_RETURN_IF_ERROR(take(kVerboseVariable, &settings.verbose));
  return settings;
}

}  // namespace ucudnn
