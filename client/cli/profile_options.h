#ifndef UCUDNN_CLIENT_CLI_PROFILE_OPTIONS_H_
#define UCUDNN_CLIENT_CLI_PROFILE_OPTIONS_H_

// The flags that commands which plan from a measured profile share:
//   --profile P.csv --batch 256 --workspace-limit 64MiB
//   [--batch-policy all|powerOfTwo|undivided|adaptive] [--network N]
//   [--layer L] [--op O] [--precision FP32] [--device D] [--layout NCHW]
//   [--max-error 1e-3] [-o FORMAT]
// Adaptive is a way to choose what to measure; of a finished profile it uses
// every size that there is, as `all` does.

#include <functional>
#include <string>

#include "base/plan/plan.h"
#include "base/profile.h"
#include "base/result.h"
#include "base/units.h"
#include "client/cli/command.h"

namespace ucudnn::ctl {

struct ProfileOptions {
  std::string profile;
  BatchSize batch;
  Bytes workspace_limit;
  BatchPolicy policy = BatchPolicy::kAll;
  ProfileFilter filter;
  OutputFormat output = OutputFormat::kTable;
};

// Adds the flags. A value that is malformed is a parse error that names the
// flag, the value and what is accepted. With `network_file`, --network names a
// required file instead of a network of the profile, which is then chosen by
// --profile-network.
void AddProfileOptions(CLI::App* command, ProfileOptions* options,
                       std::string* network_file = nullptr);

// --batch-policy and --batch alone, for commands with flags of their own. The
// help says which policy holds without the flag: the one in `*policy`, or what
// `unless_given` tells of it.
void AddBatchPolicyOption(CLI::App* command, BatchPolicy* policy);
void AddBatchPolicyOption(CLI::App* command, const std::string& flags,
                          const std::string& unless_given,
                          std::function<void(BatchPolicy)> store);
void AddBatchOption(CLI::App* command, BatchSize* batch);
// --max-error alone.
void AddMaxErrorOption(CLI::App* command, double* max_error);

// Reads the profile and keeps the kernels that the flags select. Errors of
// ReadProfileFile and SelectKernels; kInvalidArgument too where the flags
// select nothing.
Result<Profile> ReadKernels(const ProfileOptions& options);

// The same from a profile that was read from options.profile.
Result<Profile> SelectFrom(const Profile& profile,
                           const ProfileOptions& options);

// For people: what a plan does with each kernel, and the totals.
std::string PlanTable(const WorkspacePlan& plan);

}  // namespace ucudnn::ctl

#endif  // UCUDNN_CLIENT_CLI_PROFILE_OPTIONS_H_
