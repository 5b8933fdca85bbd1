#ifndef UCUDNN_CLIENT_SESSION_SESSION_H_
#define UCUDNN_CLIENT_SESSION_SESSION_H_

// How an MPI training job gets its plan, the same on all ranks, keeps it up to
// date, and tells the coordinator how it does. For programs of this source
// tree; what is installed is client/include/ucudnn.
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
//   while (training) {
//     ...                                  // this rank's images
//     session->AllReduceGradients(gradients);
//     session->ReportStep(time);
//     UCUDNN_ASSIGN_OR_RETURN(const bool changed, session->Refresh());
//     if (changed) ...                     // batch() and the rest are new
//   }
//   session->Finalize();
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
// Collective calls (Create, AllReduceGradients, ActiveComm, Refresh, Finalize)
// have the same outcome on all ranks, and every wait in them has a bound: a
// rank that is lost is an error on the others within `agree_within`. Only where
// that bound itself falls between the ranks may some have got a result that
// others have not. After such an error the session is of no use any more, and
// the program should end without MPI_Finalize, which would wait for the lost
// rank. What is said to the coordinator besides is said by a thread of the
// session's own, which never makes anybody wait and makes no call of MPI.
//
// MPI must be initialised, and is not finalised; any thread level will do. The
// session works on a communicator of its own, and belongs to one thread at a
// time.

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/network.h"
#include "base/plan/job_plan.h"
#include "base/result.h"
#include "base/units.h"

namespace ucudnn {

class AllReducer;
class Device;
class JobLink;
class Ranks;
struct SessionConfig;

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
  // Of all kernels together, which share it one after another; 0: only each is
  // limited.
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
  // How people know the job; the network's name if empty.
  std::string job_name;

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
  // must outlive the session. Every wait is bounded: it returns within the
  // three times of the options, agree_within counting once for each plan that
  // the ranks have to agree on.
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
  // Finalize, without waiting for other ranks.
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
  // The ranks, with this one, whose device, or a slice of it, is this rank's;
  // usually one. Where ranks share a device, plan().reasons says so: what is
  // predicted is for a device or slice that nobody else works on.
  const std::vector<int>& ranks_on_device() const { return ranks_on_device_; }

  // By which `ucudnn show job` knows the job: a UUID, the same on all ranks.
  const std::string& job_id() const { return job_id_; }
  // 1, and another with each plan that Refresh adopts.
  std::int64_t revision() const { return revision_; }

  // This rank's last step took so long: from its first image to its last
  // gradient, without what it waits for others, as that is what the plan
  // predicts. Takes well under a microsecond, waits for nothing, allocates
  // nothing; the coordinator is told later, in batches.
  void ReportStep(std::chrono::duration<double, std::milli> time);

  // Collective, between two steps: adopts the newest plan that `ucudnn replan`
  // has made for the job, on all ranks or on none; whether it did. A plan that
  // a rank's device cannot run is passed over, and the coordinator told. The
  // coordinator is not asked here: its news are there already, or come next
  // time. Errors: kDeadlineExceeded if not all ranks call it within
  // agree_within; kUnavailable after that.
  Result<bool> Refresh();

  // Collective: scales this rank's gradients, means over its own images, by
  // weight() and sums them over all ranks, into the means over the global
  // mini-batch, on every rank. A rank without images counts as zeros, whatever
  // it holds. They may lie in the host's or a GPU's memory, on some ranks in
  // one and on others in the other: the driver tells which. `stream`, a
  // CUstream, is what they are made in, and all that is waited for; where it is
  // null, they are made, or what the default stream would wait for makes them.
  // The sums are there when it returns.
  // Errors as Refresh; kInvalidArgument if the ranks give unlike numbers or
  // types; what one rank's GPU fails at is told on all ranks, if it fails
  // before any are summed. The gradients are then of no use.
  Status AllReduceGradients(std::span<float> gradients, void* stream = nullptr);
  Status AllReduceGradients(std::span<double> gradients,
                            void* stream = nullptr);

  // Collective, made when first asked for, and again after Refresh has
  // changed the plan: the ranks that have images, in rank order;
  // MPI_COMM_NULL on the others. The session's to free. Errors as Refresh.
  // Where ranks are left out and MPI is not at MPI_THREAD_MULTIPLE, MPI makes
  // it by a blocking call, which follows an agreement: the one wait that has no
  // bound of its own, should one of these ranks be lost within that call.
  Result<MPI_Comm> ActiveComm();

  // Collective: the job is over; tells the coordinator and gives back what the
  // session holds. Returns within agree_within and five seconds. Every later
  // collective call fails. Errors as Refresh; a coordinator that is away is
  // none.
  Status Finalize();

 private:
  Session();
  std::chrono::steady_clock::time_point Soon() const;
  void WarnOfSharedDevices();
  void StartLink(const std::vector<std::string>& hosts);
  // Why rank 0 would not offer the plan to the others.
  Status CheckOffer(const JobPlan& plan) const;
  void ForgetActiveComm();

  std::unique_ptr<Ranks> ranks_;
  std::unique_ptr<AllReducer> reducer_;
  std::unique_ptr<SessionConfig> config_;
  Device* device_ = nullptr;
  std::unique_ptr<JobLink> link_;  // null where no coordinator is named
  std::size_t index_ = 0;
  JobPlan plan_;
  PlanSource source_ = PlanSource::kUndivided;
  std::string reason_;
  std::vector<std::string> devices_;  // their ids, by rank
  std::vector<int> ranks_on_device_;
  std::string job_id_;
  std::int64_t revision_ = 1;
  std::chrono::milliseconds agree_within_{0};
  std::optional<MPI_Comm> active_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SESSION_SESSION_H_
