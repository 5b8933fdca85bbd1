#ifndef UCUDNN_CLIENT_SESSION_JOB_LINK_H_
#define UCUDNN_CLIENT_SESSION_JOB_LINK_H_

// What one rank of a job and the coordinator tell each other while the job
// runs, by a thread of its own: nobody who trains waits for it. Rank 0
// registers the job, fetches plans that it shall adopt, and says when it ends;
// every rank tells how long its steps took. A coordinator that is away is tried
// again at every report; steps of the meantime are told then, up to
// StepLog::kCapacity. Knows nothing of MPI.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/plan/job_plan.h"
#include "base/result.h"
#include "base/units.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {

class JobLink {
 public:
  struct Options {
    std::string coordinators;
    std::string job_id;
    int rank = 0;
    // Rank 0's, complete.
    std::optional<v1::RegisterJobRequest> registration;
    // The longest that one call to the coordinator takes.
    std::chrono::milliseconds call_within{1'000};
    // Between reports, until the coordinator says otherwise.
    std::chrono::milliseconds report_after{1'000};
  };

  // Starts the thread. Errors as ParseCoordinators
  // (client/config/coordinators.h).
  static Result<std::unique_ptr<JobLink>> Start(Options options);
  // Finish, unless it was called.
  ~JobLink();
  JobLink(const JobLink&) = delete;
  JobLink& operator=(const JobLink&) = delete;

  // From one thread; waits for nothing.
  void Report(std::int64_t revision, Nanoseconds time);

  // A plan that the job shall adopt, with its number in the job.
  struct Offer {
    std::int64_t revision = 0;
    JobPlan plan;
  };
  // The newest one that was not taken yet; on rank 0 alone there ever is one.
  std::optional<Offer> TakeOffer();
  // Tells what became of it; `rejected` is empty if it was adopted.
  void Answer(std::int64_t revision, std::string rejected);

  // Tells what is left to tell, and on rank 0 that the job is over; ends the
  // thread. Returns within three times call_within.
  void Finish();

 private:
  class Worker;
  explicit JobLink(std::unique_ptr<Worker> worker);
  std::unique_ptr<Worker> worker_;
};

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SESSION_JOB_LINK_H_
