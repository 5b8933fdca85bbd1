#ifndef UCUDNN_CLIENT_CONFIG_DROPIN_SETTINGS_H_
#define UCUDNN_CLIENT_CONFIG_DROPIN_SETTINGS_H_

// What the environment says to the drop-in handle and the preload shim.
//
//   UCUDNN_DISABLE=1             cuDNN alone
//   UCUDNN_WORKSPACE_LIMIT       of each kernel; what cuDNN's own choice for
//                                it takes, and 64MiB at least
//   UCUDNN_TOTAL_WORKSPACE_SIZE  of all kernels together: WD instead of WR
//   UCUDNN_COORDINATOR           host:port list; asked before measuring
//   UCUDNN_BATCH_SIZE_POLICY     all, powerOfTwo, undivided or
//                                adaptive; powerOfTwo
//   UCUDNN_PLAN_FILE             what `ucudnn plan` or `ucudnn solve` printed
//   UCUDNN_NETWORK_FILE          the network to come, for WD: CSV, or a plan;
//                                the plan file
//   UCUDNN_CACHE_DIR             measurements; $XDG_CACHE_HOME/ucudnn,
//                                $HOME/.cache/ucudnn
//   UCUDNN_DETERMINISTIC=1       only algorithms that repeat their results
//   UCUDNN_VERBOSE=1             a line on stderr for each kernel planned

#include <optional>
#include <string>
#include <vector>

#include "base/plan/plan.h"
#include "base/result.h"
#include "base/units.h"
#include "client/config/environment.h"
#include "client/config/variables.h"

namespace ucudnn {

struct DropInSettings {
  bool disabled = false;
  std::optional<Bytes> workspace_limit;
  Bytes total_workspace;  // 0: WR
  std::vector<std::string> coordinators;
  BatchPolicy policy = BatchPolicy::kPowerOfTwo;
  std::string plan_file;     // empty: none
  std::string network_file;  // WD only; empty: none
  std::string cache_dir;     // empty: nothing is kept
  bool deterministic = false;
  bool verbose = false;

  // Whether somebody bounds what kernels may take. If nobody does, no call may
  // become slower than cuDNN's own.
  bool NamesLimit() const {
    return workspace_limit || total_workspace > Bytes();
  }
  // Up to which workspace kernels are measured at least.
  Bytes MostWorkspace() const {
    return total_workspace > Bytes()
               ? total_workspace
               : workspace_limit.value_or(kDefaultWorkspaceLimit);
  }
};

// kInvalidArgument names the variable, its value and what is accepted.
Result<DropInSettings> ResolveDropInSettings(const Environment& environment);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_CONFIG_DROPIN_SETTINGS_H_
