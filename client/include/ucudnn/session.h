#ifndef UCUDNN_SESSION_H_
#define UCUDNN_SESSION_H_

// How an MPI training job gets its plan, the same on all ranks.
//
//   ucudnn::SessionOptions options;
//   options.network = network;               // base/network.h
//   options.batch = ucudnn::BatchSize(256);  // over all ranks
//   UCUDNN_ASSIGN_OR_RETURN(
//       auto session, ucudnn::Session::Create(MPI_COMM_WORLD, options,
//       device));
//   session->batch();   // this rank's share of the mini-batch
//   session->weight();  // by which this rank scales its gradients before they
//                       // are summed
//
// Rank 0 looks for a plan, in this order, and all ranks agree on what it found:
//   1. the plan file (UCUDNN_PLAN_FILE), if one is named;
//   2. the coordinator (UCUDNN_COORDINATOR), if one is named;
//   3. the plan that the coordinator last gave for the same request, which is
//      kept under UCUDNN_CACHE_DIR;
//   4. undivided: an even split, every kernel by the first algorithm of the
//      rank's device that fits.
// A plan that does not fit the job, or that a rank's device cannot run, is
// passed over. So a job does not fail because ucudnn is away, slow or wrong;
// source() and reason() tell what it runs and why.
//
// MPI must be initialised, and is not finalised; any thread level will do. The
// session works on a communicator of its own.

#include <mpi.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/network.h"
#include "base/result.h"
#include "base/units.h"
#include "ucudnn/plan.h"

namespace ucudnn {

class Device;
class Ranks;

enum class PlanSource { kPlanFile, kCoordinator, kCache, kUndivided };
// "plan file", "coordinator", "cache", "undivided".
std::string_view Name(PlanSource source);

// All ranks give the same; where a member is unset, rank 0's environment
// counts, and then the default.
struct SessionOptions {
  // What is trained. A coordinator that does not know the network by its name
  // is told its layers. Without layers (and kernels) nothing can be planned
  // without a coordinator: the undivided fallback then has no kernels.
  Network network;
  // The kernels of one iteration, if not those that KernelsOf(network) lists.
  std::vector<Kernel> kernels;
  BatchSize batch;  // over all ranks, at least 1
  Precision precision = Precision::kFp32;
  Layout layout = Layout::kNchw;
  // Of each kernel. UCUDNN_WORKSPACE_LIMIT; 64 MiB.
  std::optional<Bytes> workspace_limit;
  // Of all kernels together; 0: only each is limited.
  // UCUDNN_TOTAL_WORKSPACE_SIZE; 0.
  std::optional<Bytes> total_workspace;
  // UCUDNN_BATCH_SIZE_POLICY; powerOfTwo.
  std::optional<BatchPolicy> policy;
  // "host:port,host:port"; empty: none is asked. UCUDNN_COORDINATOR; empty.
  std::optional<std::string> coordinators;
  // Empty: none is read. UCUDNN_PLAN_FILE; empty.
  std::optional<std::string> plan_file;
  // Empty: nothing is kept. UCUDNN_CACHE_DIR; $XDG_CACHE_HOME/ucudnn;
  // $HOME/.cache/ucudnn.
  std::optional<std::string> cache_dir;

  // For how long a coordinator that does not answer is asked.
  std::chrono::milliseconds ask_within{5'000};
  // For how long measurements that a plan still needs are waited for; the
  // coordinator has them made in any case, for the jobs to come.
  std::chrono::milliseconds await_measurements{0};
  // For how long ranks wait for each other, beyond the above.
  std::chrono::milliseconds agree_within{60'000};
};

class Session {
 public:
  // Collective over `comm`, which is duplicated; `device` is this rank's, and
  // is only used within the call. Every wait is bounded: it returns within
  // the three times of the options, agree_within counting once for each plan
  // that the ranks have to agree on.
  //
  // All ranks return the same plan or the same error, which names the rank:
  // kInvalidArgument if options or the environment are malformed or differ
  // between ranks; kFailedPrecondition if a kernel does not fit into the limit
  // even undivided, or if MPI is not initialised; kDeadlineExceeded if a rank
  // does not take part, or is lost (where the bound itself falls between the
  // ranks, some may have a plan by then); kUnavailable if MPI reports a
  // failure.
  static Result<std::unique_ptr<Session>> Create(MPI_Comm comm,
                                                 const SessionOptions& options,
                                                 Device& device);

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Frees the communicator, unless MPI is finalised. Collective.
  ~Session();

  int rank() const;
  int size() const;
  // What all ranks do.
  const JobPlan& plan() const { return plan_; }
  // What this rank does.
  const RankPlan& rank_plan() const { return plan_.ranks[index_]; }
  BatchSize batch() const { return rank_plan().batch; }
  double weight() const { return rank_plan().weight; }
  // Where this rank's images begin in the global mini-batch.
  BatchSize first_image() const;

  PlanSource source() const { return source_; }
  // Why nothing better is used, and where the plan comes from; one line.
  const std::string& reason() const { return reason_; }
  // The ranks, with this one, whose device is this rank's; usually one.
  const std::vector<int>& ranks_on_device() const { return ranks_on_device_; }

 private:
  Session();

  std::unique_ptr<Ranks> ranks_;
  std::size_t index_ = 0;
  JobPlan plan_;
  PlanSource source_ = PlanSource::kUndivided;
  std::string reason_;
  std::vector<int> ranks_on_device_;
};

}  // namespace ucudnn

#endif  // UCUDNN_SESSION_H_
