#ifndef UCUDNN_CLIENT_SESSION_SESSION_H_
#define UCUDNN_CLIENT_SESSION_SESSION_H_

// How an MPI training job gets its plan, the same on all ranks, keeps it up to
// date, and reports its progress to the coordinator. For programs in this
// source tree; installed programs use client/include/ucudnn.
//
//   ucudnn::SessionOptions options;
//   options.network = network;               // base/network.h
//   options.batch = ucudnn::BatchSize(256);  // over all ranks
//   UCUDNN_ASSIGN_OR_RETURN(
//       auto session, ucudnn::Session::Create(MPI_COMM_WORLD, options,
//       device));
//   session->batch();   // this rank's share of the mini-batch
//   session->weight();  // the factor for this rank's gradients when they are
//                       // summed
//   while (training) {
//     ...                                  // this rank's images
//     session->AllReduceGradients(gradients);
//     session->ReportStep(time);
//     UCUDNN_ASSIGN_OR_RETURN(const bool changed, session->Refresh());
//     if (changed) ...                     // batch() etc. have changed
//   }
//   session->Finalize();
//
// Rank 0 looks for a plan in this order, and all ranks agree on the result:
//   1. the plan file (UCUDNN_PLAN_FILE), if one is named;
//   2. the coordinator (UCUDNN_COORDINATOR), if one is named;
//   3. the coordinator's last plan for the same request, from UCUDNN_CACHE_DIR;
//   4. undivided: an even split, every kernel with the first algorithm of the
//      rank's device that fits; no kernels and no memory plans for a job that
//      asked for memory plans.
// A plan that does not fit the job, or that a rank's device cannot run, is
// skipped. So a job does not fail because ucudnn is unavailable, slow or wrong;
// source() and reason() say what it runs and why, and rank 0 says so in one
// line on stderr if the job has no plan from where it asked for one. Only what
// the job itself names wrongly is an error: a plan file that cannot be read, or
// a network that the coordinator does not know and that has no layers.
//
// Collective calls (Create, AllReduceGradients, ActiveComm, Refresh, Finalize)
// have the same outcome on all ranks, and every wait in them is bounded: if a
// rank is lost, the others return an error within `agree_within`. Only if that
// bound expires at just the wrong moment may some ranks have a result that
// others lack. After such an error the session is unusable, and the program
// should exit without MPI_Finalize, which would wait for the lost rank. All
// other communication with the coordinator is on a thread of the session, which
// never blocks the program and makes no MPI calls.
//
// MPI must be initialised and not finalised; any thread level will do. The
// session has its own communicator, and is used by one thread at a time.

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <functional>
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

// All ranks set the same options. For unset members, rank 0's environment
// counts, then the default; comments list the variable and the default.
struct SessionOptions {
  // The network to train: a name, layers or kernels are required. If the
  // coordinator does not know it by name, it is registered with these layers.
  // Without layers and kernels, only the coordinator can plan: the undivided
  // fallback then has no kernels.
  Network network;
  // The network's file, without its weights (base/onnx/onnx.h): what the
  // coordinator plans a job with `memory` from, whatever it knows by that name.
  // Empty: it plans from what it knows, or from the layers as a chain.
  std::string network_content;
  // The kernels of one iteration; if empty, those of KernelsOf(network).
  std::vector<Kernel> kernels;
  BatchSize batch;  // over all ranks, at least 1
  Precision precision = Precision::kFp32;
  Layout layout = Layout::kNchw;
  // Limit for each kernel. UCUDNN_WORKSPACE_LIMIT; 64 MiB.
  std::optional<Bytes> workspace_limit;
  // Limit for all kernels together, which share the workspace by running one
  // after the other; 0: none. UCUDNN_TOTAL_WORKSPACE_SIZE; 0.
  std::optional<Bytes> total_workspace;
  // UCUDNN_BATCH_SIZE_POLICY; powerOfTwo.
  std::optional<BatchPolicy> policy;
  // The error that algorithms may have (base/accuracy.h).
  double max_error = kDefaultMaxError;
  // Plans whole iterations within device memory, with a memory plan for each
  // rank, instead of kernels within workspaces: the limits are not used. Unset:
  // no memory plans, except those of a plan file.
  std::optional<JobMemory> memory;
  // "host:port,host:port"; empty: use no coordinator. UCUDNN_COORDINATOR;
  // empty.
  std::optional<std::string> coordinators;
  // Empty: no plan file. UCUDNN_PLAN_FILE; empty.
  std::optional<std::string> plan_file;
  // Empty: no cache. UCUDNN_CACHE_DIR; $XDG_CACHE_HOME/ucudnn;
  // $HOME/.cache/ucudnn.
  std::optional<std::string> cache_dir;
  // Whether Refresh adopts plans that the coordinator proposes by itself,
  // because ranks are silent or steps take other times than at first; otherwise
  // people accept them (`ucudnn replan --accept`). UCUDNN_AUTO_REPLAN; false.
  std::optional<bool> auto_replan;
  // The job's name for people; if empty, the network's.
  std::string job_name;

  // How long to try to reach the coordinator.
  std::chrono::milliseconds ask_within{5'000};
  // How long to wait for measurements that a plan still needs. The coordinator
  // has them made in any case, for later jobs.
  std::chrono::milliseconds await_measurements{0};
  // How long ranks wait for each other, in addition to the above.
  std::chrono::milliseconds agree_within{60'000};
};

class Session {
 public:
  // Collective over `comm`, which is duplicated. `device` is this rank's and
  // must outlive the session. Every wait is bounded: Create returns within the
  // sum of the three times in the options, where agree_within counts once for
  // each plan that the ranks consider.
  //
  // All ranks return the same plan or the same error, which names the rank:
  // kInvalidArgument if options or the environment are malformed or differ
  // between ranks, or the plan file cannot be read; kNotFound if a coordinator
  // does not know the network, which has no layers; kFailedPrecondition if a
  // kernel does not fit into the limit even undivided, or if MPI is not
  // initialised; kDeadlineExceeded if a rank does not take part or is lost (if
  // the bound expires at just that moment, some ranks may have a plan);
  // kUnavailable if MPI reports a failure.
  static Result<std::unique_ptr<Session>> Create(MPI_Comm comm,
                                                 const SessionOptions& options,
                                                 Device& device);

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  // Finalizes without waiting for other ranks.
  ~Session();

  int rank() const;
  int size() const;
  // The plan of all ranks.
  const JobPlan& plan() const { return plan_; }
  // This rank's part of it.
  const RankPlan& rank_plan() const { return plan_.ranks[index_]; }
  BatchSize batch() const { return rank_plan().batch; }
  double weight() const { return rank_plan().weight; }
  // This rank's memory plan, as JSON with its training graph (MemoryPlanOf and
  // TrainingGraphOf, base/training/json.h): it is for batch() images, fits into
  // the device's memory, and is safe to execute in the order of its events
  // (solver/check/memory_plan.h). Null if the rank has no images, or the job's
  // plan has no memory plans, as without a coordinator (source() is then
  // kUndivided, and rank_plan() has no kernels if `memory` was asked for).
  // Refresh replaces it.
  const std::string* memory_plan() const;
  // The index of this rank's first image in the global mini-batch.
  BatchSize first_image() const;

  PlanSource source() const { return source_; }
  // Where the plan comes from and why no better one is used; one line.
  const std::string& reason() const { return reason_; }

  // The job's id in `ucudnn show job`: a UUID, the same on all ranks.
  const std::string& job_id() const { return job_id_; }
  // 1 at first; changes with each plan that Refresh adopts.
  std::int64_t revision() const { return revision_; }

  // Reports the time of this rank's last step: from its first image to its last
  // gradient, without waiting for other ranks, which is what the plan predicts.
  // Takes well under a microsecond, does not block or allocate; the coordinator
  // receives the times later, in batches.
  void ReportStep(std::chrono::duration<double, std::milli> time);

  // Collective, between two steps: adopts the newest plan that `ucudnn replan`
  // made for the job, or the coordinator by itself, on all ranks or on none;
  // returns whether it did. A plan that a rank's device cannot run is skipped
  // and reported as rejected. Does not call the coordinator: its offers have
  // already arrived or are seen next time. kDeadlineExceeded if not all ranks
  // call it within agree_within; kUnavailable after that.
  //
  // `adopt` may refuse the plan, which this session has then, for the program:
  // collective, with the same outcome on all ranks. The inner error is why the
  // session keeps the plan before; the outer one ends the job.
  using Adoption = std::function<Result<Status>()>;
  Result<bool> Refresh(const Adoption& adopt = nullptr);

  // Collective: multiplies this rank's gradients, means over its own images, by
  // weight() and sums them over all ranks, in place and on every rank: the
  // results are means over the global mini-batch. A rank without images
  // contributes zeros, whatever its array holds. The arrays may be in host
  // memory on some ranks and in GPU memory on others; the driver tells which.
  // `stream`, a CUstream, is the stream that produces them, and the only one
  // that is awaited. If null, they are ready, or are produced in streams that
  // the default stream waits for. The sums are complete on return. Errors as
  // Refresh; kInvalidArgument if counts or types differ between ranks. All
  // ranks return an error of one rank's GPU if it occurs before any gradients
  // are summed. After an error the gradients are unusable.
  Status AllReduceGradients(std::span<float> gradients, void* stream = nullptr);
  Status AllReduceGradients(std::span<double> gradients,
                            void* stream = nullptr);
  // Collective with the other ranks' AllReduceGradients: takes part with
  // `error` in place of gradients, so that all ranks return it instead of
  // waiting for this one.
  Status RefuseGradients(Error error);
  // How the last gradients were summed, and why not by NCCL
  // (client/gradients/all_reduce.h).
  const std::string& sum_method() const;

  // Collective: the communicator of the ranks that have images, in rank order;
  // MPI_COMM_NULL on the others. Created on first request, and again after
  // Refresh has changed the plan; owned by the session. Errors as Refresh. If
  // ranks are left out and MPI does not run with MPI_THREAD_MULTIPLE, MPI can
  // only create it by a blocking call, after an agreement: the one wait without
  // a bound, should one of these ranks be lost during that call.
  Result<MPI_Comm> ActiveComm();

  // Collective: ends the job, reports that to the coordinator and frees what
  // the session holds. Returns within agree_within and five seconds. Every
  // later collective call fails. Errors as Refresh; an unavailable coordinator
  // is not an error.
  Status Finalize();

 private:
  Session();
  std::chrono::steady_clock::time_point Soon() const;
  void WarnOfFallback() const;
  void WarnOfSharedDevices();
  void StartLink(const std::vector<std::string>& hosts,
                 const std::string& job_key);
  // Why rank 0 must not offer the plan to the others, or OK.
  Status CheckOffer(const JobPlan& plan) const;
  void ForgetActiveComm();

  std::unique_ptr<Ranks> ranks_;
  std::unique_ptr<AllReducer> reducer_;
  std::unique_ptr<SessionConfig> config_;
  Device* device_ = nullptr;
  std::unique_ptr<JobLink> link_;  // null without a coordinator
  std::size_t index_ = 0;
  JobPlan plan_;
  PlanSource source_ = PlanSource::kUndivided;
  std::string reason_;
  std::vector<std::string> devices_;  // their ids, by rank
  std::string job_id_;
  std::int64_t revision_ = 1;
  std::chrono::milliseconds agree_within_{0};
  std::optional<MPI_Comm> active_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SESSION_SESSION_H_
