#ifndef UCUDNN_CLIENT_SESSION_JOB_LINK_H_
#define UCUDNN_CLIENT_SESSION_JOB_LINK_H_

// Exchanges data between one rank of a running job and the coordinator, on its
// own thread, so that training never waits. Rank 0 registers the job, fetches
// plans for it to adopt and reports its end; every rank reports its step times.
// If the coordinator is unavailable, every report tries it again and sends the
// steps of the meantime, up to StepLog::kCapacity. A coordinator that does not
// know the job, or the revision that it runs, is told of both. Independent of
// MPI.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/plan/job_plan.h"
#include "base/result.h"
#include "base/service/backoff.h"
#include "base/service/credentials.h"
#include "base/units.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {

class JobLink {
 public:
  struct Options {
    std::string coordinators;
    CredentialFiles credentials = {};
    std::string job_key = {};  // of job_id (proto/job_key.h)
    std::string job_id;
    int rank = 0;
    // Set on rank 0, complete, of the plan that the job begins with.
    std::optional<v1::RegisterJobRequest> registration;
    // The time limit of one call to the coordinator.
    std::chrono::milliseconds call_within{1'000};
    // The time limit of Finish's calls together. Longer, since no later call
    // makes up for them.
    std::chrono::milliseconds finish_within{5'000};
    // The interval between reports, until the coordinator sets another.
    std::chrono::milliseconds report_after{1'000};
    // Ranks that lose a coordinator at once come back at moments spread over
    // this.
    std::chrono::milliseconds reconnect_spread = kReconnectSpread;
  };

  // Starts the thread. Errors of ParseCoordinators
  // (client/config/coordinators.h).
  static Result<std::unique_ptr<JobLink>> Start(Options options);
  // Calls Finish unless it was called.
  ~JobLink();
  JobLink(const JobLink&) = delete;
  JobLink& operator=(const JobLink&) = delete;

  // Call from one thread only. Does not block.
  void Report(std::int64_t revision, Nanoseconds time);

  // A plan for the job to adopt, with its revision number in the job.
  struct Offer {
    std::int64_t revision = 0;
    JobPlan plan;
  };
  // The newest offer that was not taken yet. Only rank 0 receives offers.
  std::optional<Offer> TakeOffer();
  // Reports the outcome of an offer: empty `rejected` means adopted.
  void Answer(const Offer& offer, std::string rejected);

  // Sends what is left and, on rank 0, reports the job's end; then stops the
  // thread. Returns within call_within and finish_within.
  void Finish();

 private:
  class Worker;
  explicit JobLink(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SESSION_JOB_LINK_H_
