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
#include "client/config/environment.h"
#include "client/session/session.h"

namespace ucudnn {

struct SessionConfig {
  JobRequest request;  // without the kinds of the ranks' devices
  Network network;
  std::vector<Kernel> kernels;
  // Whether somebody chose the limits, so that a plan file must keep to them.
  bool limits_chosen = false;
  std::string job_name;      // empty: the network's
  std::string coordinators;  // empty: none
  std::string plan_file;     // empty: none
  std::string cache_dir;     // empty: none
  std::chrono::milliseconds ask_within{0};
  std::chrono::milliseconds await_measurements{0};
};

// kInvalidArgument names the option or the variable, its value and what is
// accepted. A variable that is set but empty counts as not set.
Result<SessionConfig> ResolveConfig(const SessionOptions& options,
                                    const Environment& environment);

// What options say explicitly, as "name=value" in a fixed order; ranks compare
// it. The kernels are one value, a hash.
std::vector<std::string> ExplicitOptions(const SessionOptions& options);

// Of which the device `id` is a slice, as "GPU-.../64sm" is one of "GPU-...";
// `id` itself if it is none.
std::string WholeDevice(const std::string& id);

// 16 hexadecimal digits of the 64-bit FNV-1a hash.
std::string ShortHash(std::string_view text);
// One line a kernel: layer, operation and problem.
std::string KernelsText(const std::vector<Kernel>& kernels);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SESSION_CONFIG_H_
