#include "client/solve/allot_jobs.h"
#include "tests/fuzz/fuzz.h"

namespace ucudnn {

// What is read as jobs is within the ranges that the solver takes.
UCUDNN_FUZZ(allot_jobs, text) {
  const Result<JobsToAllot> read = ParseJobsToAllot(text, "fuzz");
  if (!read) return CheckError(read.error());
  UCUDNN_CHECK(!read->jobs.empty());
  UCUDNN_CHECK(read->jobs.size() <= kMaxAllotJobs);
  for (const JobToAllot& job : read->jobs) {
    UCUDNN_CHECK(job.batch >= BatchSize(1) && job.batch <= kMaxBatchSize);
    UCUDNN_CHECK(job.workspace_limit >= Bytes(0));
    UCUDNN_CHECK(job.weight >= 1 && job.weight <= kMaxWeight);
    UCUDNN_CHECK(job.least >= 1 && job.least <= job.most);
    UCUDNN_CHECK(job.most <= kMaxAllotDevices);
    UCUDNN_CHECK(job.fixed >= Nanoseconds(0));
    for (const Nanoseconds time : job.communication) {
      UCUDNN_CHECK(time >= Nanoseconds(0));
    }
  }
}

}  // namespace ucudnn
