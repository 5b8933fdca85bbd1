#ifndef UCUDNN_CLIENT_SESSION_CONFIG_H_
#define UCUDNN_CLIENT_SESSION_CONFIG_H_

// A session's options with the environment and the defaults filled in.

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/network.h"
#include "base/plan/job_plan.h"
#include "base/result.h"
#include "base/service/credentials.h"
#include "client/config/environment.h"
#include "client/session/session.h"

namespace ucudnn {

struct SessionConfig {
  JobRequest request;  // without the kinds of the ranks' devices
  Network network;
  std::string network_content;
  std::vector<Kernel> kernels;
  // Whether the user set limits; a plan file must then respect them.
  bool limits_chosen = false;
  bool auto_replan = false;
  std::string job_name;      // empty: the network's
  std::string coordinators;  // empty: none
  CredentialFiles credentials;
  std::string plan_file;  // empty: none
  std::string cache_dir;  // empty: none
  std::chrono::milliseconds ask_within{0};
  std::chrono::milliseconds await_measurements{0};
};

// kInvalidArgument names the option or variable, its value and what is
// accepted. An empty variable counts as unset.
Result<SessionConfig> ResolveConfig(const SessionOptions& options,
                                    const Environment& environment);

// The options that are set, as "name=value" in a fixed order, for comparing
// ranks. The kernels appear as one hash, after kKernelsOption.
inline constexpr std::string_view kKernelsOption = "kernels=";
std::vector<std::string> ExplicitOptions(const SessionOptions& options);

// The device of which `id` is a slice: "GPU-..." for "GPU-.../64sm". `id`
// itself if it is not a slice.
std::string WholeDevice(const std::string& id);

// 16 hexadecimal digits of the 64-bit FNV-1a hash.
std::string ShortHash(std::string_view text);
// One line for each kernel: layer, operation and problem.
std::string KernelsText(const std::vector<Kernel>& kernels);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SESSION_CONFIG_H_
