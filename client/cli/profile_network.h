#ifndef UCUDNN_CLIENT_CLI_PROFILE_NETWORK_H_
#define UCUDNN_CLIENT_CLI_PROFILE_NETWORK_H_

// Between profiles by problem, as coordinators keep them, and profiles by layer
// and operation, as plans are made for them.

#include <string>

#include "base/network.h"
#include "base/profile.h"
#include "base/result.h"

namespace ucudnn {

// What `profile` knows of the network's kernels, in the network's order, device
// by device and in every precision and layout that the network was measured in,
// and of its other tasks; `hash` is its file's. Kernels without a problem are
// left out.
Profile ForNetwork(const Profile& profile, const Network& network,
                   const std::string& hash);

// `profile` with the problem of every kernel: those that do not tell theirs are
// looked up in the network by layer and operation. Their points are those of
// all precisions that the kernel's admits, as SelectKernels merges them. Other
// tasks stay. kInvalidArgument if the network has no such layer.
Result<Profile> WithProblems(const Profile& profile, const Network& network);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_CLI_PROFILE_NETWORK_H_
