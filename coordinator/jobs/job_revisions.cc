// The plans that jobs run, ran, and are asked to adopt.

#include "base/text.h"
#include "coordinator/jobs/job_rows.h"

namespace ucudnn {
namespace {

// The column `proposed` holds an Offered as its number.
std::int64_t NumberOf(Offered offered) {
  return static_cast<std::int64_t>(offered);
}

struct LockedJob {
  bool finished = false;
  bool auto_replan = false;
  Nanoseconds predicted{0};  // by the plan that it gets
};

// Locks the job, so that concurrent calls change its revisions one after the
// other. kNotFound.
Result<LockedJob> LockJob(SqlTransaction& sql, const std::string& job) {
  return OneRecord(
      sql.Query("SELECT state, auto_replan FROM jobs WHERE id = $1 " +
                    sql.dialect().lock_rows,
                {job}),
      [](const SqlRow& row) -> Result<LockedJob> {
        UCUDNN_ASSIGN_OR_RETURN(const JobState state,
                                ParseJobState(row.Text(0)));
        return LockedJob{.finished = state == JobState::kFinished,
                         .auto_replan = row.Int(1) != 0};
      },
      fmt::format("job '{}'", job));
}

// LockJob for a job that gets a plan. kNotFound; kFailedPrecondition: it is
// finished.
Result<LockedJob> LockForPlan(SqlTransaction& sql, const std::string& job,
                              std::int64_t plan) {
  UCUDNN_ASSIGN_OR_RETURN(LockedJob locked, LockJob(sql, job));
  if (locked.finished) {
    return Fail(Code::kFailedPrecondition, "job '{}' is finished", job);
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto predicted, PredictedBy(sql, plan));
  if (!predicted) return Fail(Code::kNotFound, "there is no plan {}", plan);
  locked.predicted = *predicted;
  return locked;
}

Result<std::vector<JobRevisionRecord>> ListRevisions(SqlTransaction& sql,
                                                     const std::string& job) {
  return Records(sql.Query(fmt::format("SELECT {} FROM job_revisions "
                                       "WHERE job = $1 ORDER BY revision",
                                       kRevisionColumns),
                           {job}),
                 RevisionOf);
}

Status Accept(SqlTransaction& sql, const std::string& job) {
  return sql.Execute(
      "UPDATE job_revisions SET proposed = 0 WHERE job = $1 AND proposed = 1",
      {job});
}

// Adds the revision after `newest`, in place of a proposed one.
Status Add(SqlTransaction& sql, const std::string& job,
           const JobRevisionRecord& added) {
  UCUDNN_RETURN_IF_ERROR(sql.Execute(
      "UPDATE job_revisions SET proposed = 2, rejected = $2 "
      "WHERE job = $1 AND proposed = 1",
      {job, fmt::format("replaced by revision {}", added.revision)}));
  return sql.Execute(
      "INSERT INTO job_revisions (job, revision, plan, reason, rejected, "
      "created_ms, adopted_ms, proposed) VALUES ($1, $2, $3, $4, '', $5, 0, "
      "$6)",
      {job, added.revision, *added.plan, added.reason, added.created_ms,
       NumberOf(added.offered)});
}

}  // namespace

Result<JobRevisionRecord> RevisionOf(const SqlRow& row) {
  return JobRevisionRecord{
      .revision = row.Int(0),
      .plan = row.IsNull(1) ? std::nullopt : std::optional(row.Int(1)),
      .predicted = Nanoseconds(row.IsNull(7) ? 0 : row.Int(7)),
      .reason = row.Text(2),
      .rejected = row.Text(3),
      .created_ms = row.Int(4),
      .adopted_ms = row.Int(5),
      .offered = static_cast<Offered>(row.Int(6))};
}

Result<JobRevisionRecord> NewestRevision(SqlTransaction& sql,
                                         const std::string& job) {
  return OneRecord(
      sql.Query(fmt::format("SELECT {} FROM job_revisions WHERE job = $1 AND "
                            "proposed = 0 ORDER BY revision DESC LIMIT 1",
                            kRevisionColumns),
                {job}),
      RevisionOf, fmt::format("revision of job '{}'", job));
}

Result<std::optional<Nanoseconds>> PredictedBy(SqlTransaction& sql,
                                               std::int64_t plan) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto rows,
      sql.Query("SELECT predicted_ns FROM plans WHERE id = $1", {plan}));
  if (rows.empty()) return std::nullopt;
  return Nanoseconds(rows[0].Int(0));
}

Result<JobRevisionRecord> JobStore::AddJobRevision(const std::string& job,
                                                   std::int64_t plan,
                                                   const std::string& reason,
                                                   UnixMillis now_ms) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the job's id", job));
  return database_.Write([&](SqlTransaction& sql) -> Result<JobRevisionRecord> {
    UCUDNN_ASSIGN_OR_RETURN(const LockedJob locked,
                            LockForPlan(sql, job, plan));
    UCUDNN_ASSIGN_OR_RETURN(const JobRevisionRecord asked,
                            NewestRevision(sql, job));
    if (asked.plan == plan && asked.rejected.empty()) return asked;
    UCUDNN_ASSIGN_OR_RETURN(auto revisions, ListRevisions(sql, job));
    JobRevisionRecord& newest = revisions.back();
    if (newest.offered == Offered::kProposed && newest.plan == plan) {
      UCUDNN_RETURN_IF_ERROR(Accept(sql, job));
      newest.offered = Offered::kToAdopt;
      return newest;
    }
    const JobRevisionRecord added{.revision = newest.revision + 1,
                                  .plan = plan,
                                  .predicted = locked.predicted,
                                  .reason = reason,
                                  .rejected = "",
                                  .created_ms = now_ms,
                                  .adopted_ms = 0};
    UCUDNN_RETURN_IF_ERROR(Add(sql, job, added));
    return added;
  });
}

Result<std::optional<JobRevisionRecord>> JobStore::ProposeJobRevision(
    const std::string& job, std::optional<std::int64_t> seen, std::int64_t plan,
    const std::string& reason, UnixMillis now_ms) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the job's id", job));
  return database_.Write([&](SqlTransaction& sql)
                             -> Result<std::optional<JobRevisionRecord>> {
    UCUDNN_ASSIGN_OR_RETURN(const LockedJob locked,
                            LockForPlan(sql, job, plan));
    UCUDNN_ASSIGN_OR_RETURN(const auto revisions, ListRevisions(sql, job));
    if (seen && revisions.back().revision > *seen) return std::nullopt;
    UCUDNN_ASSIGN_OR_RETURN(const JobRevisionRecord asked,
                            NewestRevision(sql, job));
    for (const JobRevisionRecord& revision : revisions) {
      if (revision.plan == plan && revision.offered != Offered::kReplaced &&
          (revision.revision >= asked.revision || !revision.rejected.empty())) {
        return std::nullopt;
      }
    }
    JobRevisionRecord added{
        .revision = revisions.back().revision + 1,
        .plan = plan,
        .predicted = locked.predicted,
        .reason = reason,
        .rejected = "",
        .created_ms = now_ms,
        .adopted_ms = 0,
        .offered = locked.auto_replan ? Offered::kToAdopt : Offered::kProposed};
    UCUDNN_RETURN_IF_ERROR(Add(sql, job, added));
    return added;
  });
}

Status JobStore::WithdrawJobRevision(const std::string& job,
                                     std::int64_t revision,
                                     const std::string& why) {
  return database_.Write([&](SqlTransaction& sql) {
    return sql.Execute(
        "UPDATE job_revisions SET proposed = 2, rejected = $3 "
        "WHERE job = $1 AND revision = $2 AND proposed = 1",
        {job, revision, why});
  });
}

Result<JobRevisionRecord> JobStore::AcceptJobRevision(const std::string& job) {
  return database_.Write([&](SqlTransaction& sql) -> Result<JobRevisionRecord> {
    UCUDNN_ASSIGN_OR_RETURN(const LockedJob locked, LockJob(sql, job));
    UCUDNN_ASSIGN_OR_RETURN(auto revisions, ListRevisions(sql, job));
    JobRevisionRecord& newest = revisions.back();
    if (locked.finished || newest.offered != Offered::kProposed) {
      return Fail(Code::kFailedPrecondition, "job '{}' {}", job,
                  locked.finished ? "is finished" : "has no proposed revision");
    }
    UCUDNN_RETURN_IF_ERROR(Accept(sql, job));
    newest.offered = Offered::kToAdopt;
    return newest;
  });
}

Status JobStore::AnswerJobRevision(const std::string& job,
                                   std::int64_t revision,
                                   const std::string& rejected,
                                   UnixMillis now_ms) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the job's id", job));
  return database_.Write([&](SqlTransaction& sql) -> Status {
    UCUDNN_RETURN_IF_ERROR(LockJob(sql, job));
    UCUDNN_ASSIGN_OR_RETURN(
        const JobRevisionRecord asked,
        OneRecord(sql.Query(fmt::format("SELECT {} FROM job_revisions WHERE "
                                        "job = $1 AND revision = $2",
                                        kRevisionColumns),
                            {job, revision}),
                  RevisionOf,
                  fmt::format("revision {} of job '{}'", revision, job)));
    if (asked.offered != Offered::kToAdopt) {
      return Fail(Code::kInvalidArgument,
                  "the ranks of job '{}' are not asked to adopt revision {}",
                  job, revision);
    }
    if (asked.adopted_ms > 0 || !asked.rejected.empty()) {
      if (rejected.empty() == asked.rejected.empty()) return {};
      return Fail(Code::kInvalidArgument,
                  "rejected is '{}'; revision {} of job '{}' was {} before, "
                  "and only that answer is accepted",
                  Excerpt(rejected), revision, job,
                  asked.rejected.empty() ? "adopted" : "rejected");
    }
    UCUDNN_RETURN_IF_ERROR(
        sql.Execute("UPDATE job_revisions SET rejected = $3, adopted_ms = $4 "
                    "WHERE job = $1 AND revision = $2",
                    {job, revision, rejected, rejected.empty() ? now_ms : 0}));
    if (!rejected.empty()) return {};
    return sql.Execute(
        "UPDATE jobs SET revision = $2 WHERE id = $1 AND revision < $2",
        {job, revision});
  });
}

}  // namespace ucudnn
