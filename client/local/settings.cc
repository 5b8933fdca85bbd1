#include "client/local/settings.h"

#include "base/text.h"
#include "client/coordinators.h"

namespace ucudnn {
namespace {

Result<std::string> AsIs(const std::string& text) { return text; }

Result<bool> ParseSwitch(const std::string& text) {
  if (text == "1") return true;
  if (text == "0") return false;
  return Fail(Code::kInvalidArgument, "'{}' is neither 0 nor 1", Excerpt(text));
}

}  // namespace

Result<LocalSettings> ResolveLocalSettings(const Environment& environment) {
  LocalSettings settings;
  settings.cache_dir = DefaultCacheDirectory(environment);
  const auto read = [&](const char* name, auto parse, auto* value) -> Status {
    auto found = FromEnvironment(environment, name, parse, value);
    if (!found) return tl::unexpected<Error>(std::move(found).error());
    return {};
  };
  UCUDNN_RETURN_IF_ERROR(
      read("UCUDNN_DISABLE", ParseSwitch, &settings.disabled));
  Bytes limit;
  UCUDNN_ASSIGN_OR_RETURN(const bool is_limited,
                          FromEnvironment(environment, "UCUDNN_WORKSPACE_LIMIT",
                                          ParseBytes, &limit));
  if (is_limited) settings.workspace_limit = limit;
  UCUDNN_RETURN_IF_ERROR(read("UCUDNN_TOTAL_WORKSPACE_SIZE", ParseBytes,
                              &settings.total_workspace));
  std::string coordinators;
  UCUDNN_RETURN_IF_ERROR(read("UCUDNN_COORDINATOR", AsIs, &coordinators));
  if (!coordinators.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(
        settings.coordinators,
        ParseCoordinators(coordinators, "UCUDNN_COORDINATOR"));
  }
  UCUDNN_RETURN_IF_ERROR(
      read("UCUDNN_BATCH_SIZE_POLICY", ParseBatchPolicy, &settings.policy));
  UCUDNN_RETURN_IF_ERROR(read("UCUDNN_PLAN_FILE", AsIs, &settings.plan_file));
  settings.network_file = settings.plan_file;
  UCUDNN_RETURN_IF_ERROR(
      read("UCUDNN_NETWORK_FILE", AsIs, &settings.network_file));
  if (settings.total_workspace == Bytes()) settings.network_file.clear();
  UCUDNN_RETURN_IF_ERROR(read("UCUDNN_CACHE_DIR", AsIs, &settings.cache_dir));
  UCUDNN_RETURN_IF_ERROR(
      read("UCUDNN_DETERMINISTIC", ParseSwitch, &settings.deterministic));
  UCUDNN_RETURN_IF_ERROR(
      read("UCUDNN_VERBOSE", ParseSwitch, &settings.verbose));
  return settings;
}

}  // namespace ucudnn
