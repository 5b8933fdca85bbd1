#ifndef UCUDNN_CLIENT_DROPIN_PLANNER_NAMED_NETWORK_H_
#define UCUDNN_CLIENT_DROPIN_PLANNER_NAMED_NETWORK_H_

// The network that a job names (UCUDNN_NETWORK_FILE), so that a total workspace
// is divided among all of its kernels at once, before they have all run.

#include <string>
#include <string_view>
#include <vector>

#include "base/network.h"
#include "base/result.h"
#include "client/dropin/planner/planner.h"

namespace ucudnn {

class NamedNetwork {
 public:
  // Names nothing.
  NamedNetwork() = default;

  // A network as CSV (base/network.h), or a plan (plan_text.h), of which the
  // kernels for devices of `kind` count. ONNX is not read inside of a program:
  // what `ucudnn networks convert` makes of it is.
  // kInvalidArgument, starting with the path, if it is neither; errors of
  // ReadFile (base/files/file.h).
  static Result<NamedNetwork> Read(const std::string& path,
                                   const std::string& kind);

  // The kernels of one iteration, given one of them: a network's have its
  // precision, layout and batch; a plan's are those of its batch. Kernels alike
  // are one unless `tells_layers` (each then has its own).
  std::vector<LocalPlanner::Kernel> KernelsLike(
      const LocalPlanner::Kernel& kernel, bool tells_layers) const;

 private:
  Network network_;                            // a network's
  std::vector<LocalPlanner::Kernel> planned_;  // a plan's
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_DROPIN_PLANNER_NAMED_NETWORK_H_
