#ifndef UCUDNN_CLIENT_DROPIN_PLANNER_NAMED_NETWORK_H_
#define UCUDNN_CLIENT_DROPIN_PLANNER_NAMED_NETWORK_H_

// The network in UCUDNN_NETWORK_FILE, which lets a total workspace be divided
// among all of its kernels at once, before they have all run.

#include <string>
#include <string_view>
#include <vector>

#include "base/network.h"
#include "base/result.h"
#include "client/dropin/planner/planner.h"

namespace ucudnn {

class NamedNetwork {
 public:
  // Has no kernels.
  NamedNetwork() = default;

  // Reads a network as CSV (base/network.h), or a plan (plan_file_kernels.h),
  // of which it keeps the kernels for devices of `kind`. ONNX is not read
  // inside a program's process; `ucudnn networks convert` makes CSV from it.
  // kInvalidArgument, starting with the path, if the file is neither; errors of
  // ReadFile (base/files/file.h).
  static Result<NamedNetwork> Read(const std::string& path,
                                   const std::string& kind);

  // The kernels of one iteration that includes `kernel`: a network's with its
  // precision, layout and batch, a plan's with its batch. Kernels of equal
  // shape count once unless `tells_layers`.
  std::vector<LocalSolver::Kernel> KernelsLike(
      const LocalSolver::Kernel& kernel, bool tells_layers) const;

 private:
  Network network_;                           // from CSV
  std::vector<LocalSolver::Kernel> planned_;  // from a plan
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_PLANNER_NAMED_NETWORK_H_
