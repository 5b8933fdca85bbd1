#include "client/session/config.h"

#include <fmt/ranges.h>

#include <utility>

#include "client/config/variables.h"

namespace ucudnn {
namespace {

// Sets `value` from the option or else from the variable; returns whether
// either was set.
template <class T>
Result<bool> Choose(const std::optional<T>& option,
                    const Environment& environment, const Variable<T>& variable,
                    T* value) {
  UCUDNN_ASSIGN_OR_RETURN(auto chosen,
                          option ? Result<std::optional<T>>(option)
                                 : ReadVariable(environment, variable));
  if (!chosen) return false;
  *value = *std::move(chosen);
  return true;
}

Status NotNegative(std::string_view name, std::int64_t value) {
  if (value >= 0) return {};
  return Fail(Code::kInvalidArgument, "{} is {}; at least 0 is accepted", name,
              value);
}

std::string MemoryText(const std::optional<JobMemory>& memory) {
  if (!memory) return "unset";
  std::vector<std::string> budgets;
  for (const Bytes budget : memory->budgets) {
    budgets.push_back(FormatBytes(budget));
  }
  return fmt::format("{} by {}{}{}{}", fmt::join(budgets, ","), memory->policy,
                     memory->recompute ? " with recomputation" : "",
                     memory->offload_weights ? " with weights" : "",
                     memory->momentum ? " with momentum" : "");
}

}  // namespace

Result<SessionConfig> ResolveConfig(const SessionOptions& options,
                                    const Environment& environment) {
  SessionConfig config;
  JobRequest& request = config.request;
  if (options.batch < BatchSize(1) || options.batch > kMaxBatchSize) {
    return Fail(Code::kInvalidArgument, "batch is {}; 1 to {} is accepted",
                options.batch.count(), kMaxBatchSize.count());
  }
  if (options.network.name.empty() && options.network.layers.empty() &&
      options.kernels.empty()) {
    return Fail(Code::kInvalidArgument, "network or network_file is required");
  }
  request.network = options.network.name;
  request.batch = options.batch;
  request.precision = options.precision;
  request.layout = options.layout;
  request.memory = options.memory;
  request.max_error = options.max_error;
  request.workspace_limit = kDefaultWorkspaceLimit;
  UCUDNN_ASSIGN_OR_RETURN(
      const bool limit,
      Choose(options.workspace_limit, environment, kWorkspaceLimitVariable,
             &request.workspace_limit));
  UCUDNN_ASSIGN_OR_RETURN(
      const bool total,
      Choose(options.total_workspace, environment, kTotalWorkspaceVariable,
             &request.total_workspace));
  config.limits_chosen = limit || total;
  UCUDNN_RETURN_IF_ERROR(
      NotNegative("workspace_limit", request.workspace_limit.count()));
  UCUDNN_RETURN_IF_ERROR(
      NotNegative("total_workspace", request.total_workspace.count()));
  if (request.memory) {
    request.workspace_limit = Bytes(0);
    request.total_workspace = Bytes(0);
  }
  UCUDNN_RETURN_IF_ERROR(Choose(options.policy, environment,
                                kBatchPolicyVariable, &request.policy));
  UCUDNN_RETURN_IF_ERROR(Choose(options.auto_replan, environment,
                                kAutoReplanVariable, &config.auto_replan));
  UCUDNN_RETURN_IF_ERROR(Choose(options.coordinators, environment,
                                kCoordinatorVariable, &config.coordinators));
  if (options.coordinators && !config.coordinators.empty()) {
    UCUDNN_RETURN_IF_ERROR(
        ParseCoordinators(config.coordinators, "coordinators"));
  }
  config.credentials = CredentialsFrom(environment);
  UCUDNN_RETURN_IF_ERROR(Choose(options.plan_file, environment,
                                kPlanFileVariable, &config.plan_file));
  UCUDNN_ASSIGN_OR_RETURN(const bool cached,
                          Choose(options.cache_dir, environment,
                                 kCacheDirectoryVariable, &config.cache_dir));
  if (!cached) config.cache_dir = DefaultCacheDirectory(environment);
  UCUDNN_RETURN_IF_ERROR(NotNegative("ask_within", options.ask_within.count()));
  UCUDNN_RETURN_IF_ERROR(
      NotNegative("await_measurements", options.await_measurements.count()));
  UCUDNN_RETURN_IF_ERROR(
      NotNegative("agree_within", options.agree_within.count()));
  config.ask_within = options.ask_within;
  config.await_measurements = options.await_measurements;
  config.network = options.network;
  config.network_content = options.network_content;
  config.job_name = options.job_name;
  config.kernels =
      options.kernels.empty()
          ? KernelsOf(options.network, options.precision, options.layout)
          : options.kernels;
  return config;
}

std::vector<std::string> ExplicitOptions(const SessionOptions& options) {
  const std::vector<Kernel> kernels =
      options.kernels.empty()
          ? KernelsOf(options.network, options.precision, options.layout)
          : options.kernels;
  const auto bytes = [](const std::optional<Bytes>& value) {
    return value ? FormatBytes(*value) : std::string("unset");
  };
  return {
      "network=" + options.network.name,
      fmt::format("batch={}", options.batch.count()),
      fmt::format("precision={}", Name(options.precision)),
      fmt::format("layout={}", Name(options.layout)),
      // After what the kernels are made with.
      std::string(kKernelsOption) + ShortHash(KernelsText(kernels)),
      "workspace_limit=" + bytes(options.workspace_limit),
      "total_workspace=" + bytes(options.total_workspace),
      fmt::format("policy={}",
                  options.policy ? Name(*options.policy) : "unset"),
      fmt::format("max_error={}", options.max_error),
      "memory=" + MemoryText(options.memory),
      "network_content=" + ShortHash(options.network_content),
      "coordinators=" + options.coordinators.value_or("unset"),
      "plan_file=" + options.plan_file.value_or("unset"),
      "job_name=" + options.job_name,
      fmt::format("auto_replan={}", options.auto_replan
                                        ? (*options.auto_replan ? "1" : "0")
                                        : "unset"),
  };
}

std::string WholeDevice(const std::string& id) {
  return id.substr(0, id.find('/'));
}

std::string ShortHash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return fmt::format("{:016x}", hash);
}

std::string KernelsText(const std::vector<Kernel>& kernels) {
  std::string text;
  for (const Kernel& kernel : kernels) {
    text += fmt::format("{} {} {}\n", kernel.layer, Name(kernel.op),
                        ToString(kernel.problem));
  }
  return text;
}

}  // namespace ucudnn
