#ifndef UCUDNN_COORDINATOR_JOBS_JOB_STORE_H_
#define UCUDNN_COORDINATOR_JOBS_JOB_STORE_H_

// Training jobs, their ranks, the plans they run and how long their steps take.
// stores.h states what holds for every call.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "coordinator/planning/drift.h"
#include "coordinator/store/actions.h"
#include "coordinator/store/pulse.h"
#include "coordinator/store/unix_millis.h"

namespace ucudnn {

class SqlDatabase;

enum class JobState {
  kRunning,
  kFinished,  // reported by the job
  kLost,      // silent for too long
};
// "running", "finished", "lost".
std::string_view Name(JobState state);
Result<JobState> ParseJobState(std::string_view text);

struct JobRecord {
  std::string id;  // chosen by the job
  std::string name;
  JobState state = JobState::kRunning;
  std::string request;        // for a plan; opaque to the store
  std::string source;         // of its first plan
  std::string reason;         // why it came from there
  std::int64_t revision = 1;  // the latest that its ranks adopted
  bool auto_replan = false;   // it adopts what the coordinator proposes
  std::int64_t proposed = 0;  // the revision that awaits acceptance; 0: none
  std::optional<std::int64_t> plan = {};  // of `revision`; ignored in writing
  std::string asked_by = {};  // who registered it; empty: nobody knows
  UnixMillis created_ms = 0;
  UnixMillis seen_ms = 0;

  friend bool operator==(const JobRecord&, const JobRecord&) = default;
};

struct JobRankRecord {
  std::int64_t rank = 0;
  std::string device;
  std::string kind;
  std::string host;
  UnixMillis seen_ms = 0;

  friend bool operator==(const JobRankRecord&, const JobRankRecord&) = default;
};

enum class Offered {
  kToAdopt,   // the ranks are asked to adopt it
  kProposed,  // they are not until it is accepted
  kReplaced,  // another took its place before it was accepted
};

// A plan that a job runs, ran, was asked to adopt, or could.
struct JobRevisionRecord {
  std::int64_t revision = 1;
  std::optional<std::int64_t> plan;  // absent: made elsewhere
  Nanoseconds predicted{0};          // by the plan; ignored in writing
  std::string reason;                // why the revision was added
  std::string rejected;              // why the ranks rejected it
  UnixMillis created_ms = 0;
  UnixMillis adopted_ms = 0;  // 0: not yet
  Offered offered = Offered::kToAdopt;

  friend bool operator==(const JobRevisionRecord&,
                         const JobRevisionRecord&) = default;
};

// The steps of one rank under one revision.
struct JobStepsRecord {
  std::int64_t revision = 1;
  std::int64_t rank = 0;
  std::int64_t count = 0;
  // The times of at most kMaxKeptSteps steps, in order: the first kFirstSteps,
  // then the latest (planning/drift.h).
  std::vector<Nanoseconds> kept;

  friend bool operator==(const JobStepsRecord&,
                         const JobStepsRecord&) = default;
};

// A Pulse (pulse.h) of a running job's rank.
struct RankPulse {
  std::string job;
  std::int64_t rank = 0;
  std::int64_t beats = 0;

  friend bool operator==(const RankPulse&, const RankPulse&) = default;
};

struct JobCounts {
  std::int64_t running = 0;
  std::int64_t finished = 0;
  std::int64_t lost = 0;
};

struct JobDetails {
  JobRecord job;
  std::vector<JobRevisionRecord> revisions;  // in order
  std::vector<JobRankRecord> ranks;          // in order
  std::vector<JobStepsRecord> steps;         // by revision, then rank
};

// The times of a rank's latest steps, in order. `first_step` is the number of
// steps that the rank took before them under this revision, so that repeating a
// report adds nothing.
struct StepReport {
  std::int64_t rank = 0;
  std::int64_t revision = 1;
  std::int64_t first_step = 0;
  std::vector<Nanoseconds> steps;
};

// The answer to a report.
struct JobHeard {
  JobState state = JobState::kRunning;
  JobRevisionRecord newest;
};

class JobStore {
 public:
  explicit JobStore(SqlDatabase& database) : database_(database) {}

  // Adds a running job with its ranks and `job.revision`, which has `plan` if
  // that exists. State and times of the records are ignored. Of a known job,
  // only the time last seen is updated, unless it reached no such revision:
  // then the revision and the job's request are added.
  Status RegisterJob(const JobRecord& job, std::span<const JobRankRecord> ranks,
                     std::optional<std::int64_t> plan, UnixMillis now_ms);
  // Adds the steps. The job and the reporting ranks were seen at `now_ms`; a
  // lost job is running again. kNotFound: there is no such job, or it reached
  // no such revision; kInvalidArgument: it has no such rank.
  Result<JobHeard> ReportSteps(const std::string& job,
                               std::span<const StepReport> reports,
                               UnixMillis now_ms);
  // Adds a revision with `plan` for the ranks to adopt, unless the newest one
  // that they were asked to adopt has this plan and was not rejected. A
  // proposed revision is accepted if it has this plan, and otherwise replaced.
  // Returns the revision with `plan`. kNotFound: the job or the plan;
  // kFailedPrecondition: the job is finished.
  Result<JobRevisionRecord> AddJobRevision(const std::string& job,
                                           std::int64_t plan,
                                           const std::string& reason,
                                           UnixMillis now_ms);
  // Adds a revision with `plan`, unless the newest one that the ranks were
  // asked to adopt, a proposed or a rejected one has it, or one was added after
  // `seen`, the newest one when the plan was made (absent: any may have been):
  // then none is returned. It is proposed or, if the job replans by itself, for
  // the ranks to adopt; an earlier proposed one is replaced. Errors of
  // AddJobRevision.
  Result<std::optional<JobRevisionRecord>> ProposeJobRevision(
      const std::string& job, std::optional<std::int64_t> seen,
      std::int64_t plan, const std::string& reason, UnixMillis now_ms);
  // The revision is no longer proposed, for the reason `why`. Does nothing if
  // it is not.
  Status WithdrawJobRevision(const std::string& job, std::int64_t revision,
                             const std::string& why);
  // The ranks of jobs that the caller registered since then.
  Result<std::int64_t> CountRanksOf(const std::string& asked_by,
                                    UnixMillis since_ms);
  // The proposed revision becomes one for the ranks to adopt. kNotFound;
  // kFailedPrecondition: none is proposed, or the job is finished.
  Result<JobRevisionRecord> AcceptJobRevision(const std::string& job);
  // Records that the ranks adopted the revision or, if `rejected` is not empty,
  // why they rejected it. Repeating an answer changes nothing. kNotFound;
  // kInvalidArgument: the opposite was answered, or the ranks were not asked to
  // adopt it.
  Status AnswerJobRevision(const std::string& job, std::int64_t revision,
                           const std::string& rejected, UnixMillis now_ms);
  Status FinishJob(const std::string& job, UnixMillis now_ms);
  // The pulses of all running jobs. The registration and each report is a beat.
  Result<std::vector<Pulse>> ListJobPulses();
  // The pulses of the ranks of running jobs, by job and rank. Each report is a
  // beat.
  Result<std::vector<RankPulse>> ListRankPulses();
  // Those running jobs become lost whose pulses have not changed since they
  // were listed. Returns their ids, sorted.
  Result<std::vector<std::string>> ExpireJobs(std::span<const Pulse> silent);
  // The next `limit` jobs after the job `after` (from the first if empty), by
  // created_ms, newest first, then id. kInvalidArgument: there is no job
  // `after`.
  Result<std::vector<JobRecord>> ListJobs(std::int64_t limit,
                                          const std::string& after);
  Result<JobCounts> CountJobs();
  Result<JobDetails> GetJob(const std::string& id);  // kNotFound
  // Deletes the job, with its ranks, revisions and steps, and records the
  // action. kNotFound; kFailedPrecondition: it is running.
  Status DeleteJob(const std::string& id, const ActionRecord& action);

 private:
  SqlDatabase& database_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_JOBS_JOB_STORE_H_
