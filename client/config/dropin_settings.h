#ifndef UCUDNN_CLIENT_CONFIG_DROPIN_SETTINGS_H_
#define UCUDNN_CLIENT_CONFIG_DROPIN_SETTINGS_H_

// The settings of the drop-in handle and the preload shim, from environment
// variables (defaults after the semicolon):
//
//   UCUDNN_DISABLE=1             run cuDNN alone
//   UCUDNN_WORKSPACE_LIMIT       for each kernel; what cuDNN's own choice for
//                                it takes, at least 64MiB
//   UCUDNN_TOTAL_WORKSPACE_SIZE  for all kernels together: WD instead of WR
//   UCUDNN_GRAPH_MEMORY          device memory for captured graphs; 64MiB, 0:
//                                nothing is captured
//   UCUDNN_COORDINATOR           list of host:7460, or http://host:port of
//                                REST; asked before measuring
//   UCUDNN_CA, UCUDNN_CERT, UCUDNN_KEY, UCUDNN_TOKEN_FILE
//                                to ask over TLS (base/service/credentials.h)
//   UCUDNN_BATCH_SIZE_POLICY     all, powerOfTwo, undivided or
//                                adaptive; powerOfTwo
//   UCUDNN_PLAN_FILE             output of `ucudnn plan` or `ucudnn solve`
//   UCUDNN_NETWORK_FILE          the whole network, for WD: CSV or a plan;
//                                UCUDNN_PLAN_FILE
//   UCUDNN_CACHE_DIR             for measurements; $XDG_CACHE_HOME/ucudnn,
//                                $HOME/.cache/ucudnn
//   UCUDNN_DETERMINISTIC=1       use only deterministic algorithms
//   UCUDNN_BRANCHES=1            also use algorithms in two parallel branches
//                                (device/cudnn/branches.h)
//   UCUDNN_VERBOSE=1             a line on stderr for each kernel planned

#include <optional>
#include <string>
#include <vector>

#include "base/plan/plan.h"
#include "base/result.h"
#include "base/service/credentials.h"
#include "base/units.h"
#include "client/config/environment.h"
#include "client/config/variables.h"

namespace ucudnn {

struct DropInSettings {
  bool disabled = false;
  std::optional<Bytes> workspace_limit;
  Bytes total_workspace;  // 0: WR
  Bytes graph_memory = kDefaultGraphMemory;
  std::vector<std::string> coordinators;  // see RestAddress (coordinators.h)
  CredentialFiles credentials;  // not read yet
  BatchPolicy policy = BatchPolicy::kPowerOfTwo;
  std::string plan_file;     // empty: none
  std::string network_file;  // used in WD only; empty: none
  std::string cache_dir;     // empty: no cache
  bool deterministic = false;
  bool branches = false;
  bool verbose = false;

  // Whether the user set a workspace limit. If not, no call may become slower
  // than with cuDNN alone.
  bool NamesLimit() const {
    return workspace_limit || total_workspace > Bytes();
  }
  // Kernels are measured with workspaces up to at least this.
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
