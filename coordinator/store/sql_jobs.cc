// Jobs, their ranks, revisions and step times.

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "coordinator/store/sql_store.h"

namespace ucudnn {
namespace {

constexpr char kJobColumns[] =
    "id, name, state, request, source, reason, revision, created_ms, seen_ms";
constexpr char kRevisionColumns[] =
    "revision, plan, reason, rejected, created_ms, adopted_ms";

// Counts and times of steps stay below this, so that sums do not overflow.
Result<JobRecord> JobOf(const SqlRow& row) {
  JobRecord job{.id = row.Text(0),
                .name = row.Text(1),
                .state = JobState::kRunning,
                .request = row.Text(3),
                .source = row.Text(4),
                .reason = row.Text(5),
                .revision = row.Int(6),
                .created_ms = row.Int(7),
                .seen_ms = row.Int(8)};
  UCUDNN_ASSIGN_OR_RETURN(job.state, ParseJobState(row.Text(2)));
  return job;
}

Result<JobRevisionRecord> RevisionOf(const SqlRow& row) {
  return JobRevisionRecord{
      .revision = row.Int(0),
      .plan = row.IsNull(1) ? std::nullopt : std::optional(row.Int(1)),
      .reason = row.Text(2),
      .rejected = row.Text(3),
      .created_ms = row.Int(4),
      .adopted_ms = row.Int(5)};
}

Result<JobRankRecord> RankOf(const SqlRow& row) {
  return JobRankRecord{.rank = row.Int(0),
                       .device = row.Text(1),
                       .kind = row.Text(2),
                       .host = row.Text(3),
                       .seen_ms = row.Int(4)};
}

Result<std::vector<Nanoseconds>> TimesOf(std::string_view text) {
  std::vector<Nanoseconds> times;
  while (!text.empty()) {
    std::int64_t ns = 0;
    const auto read =
        std::from_chars(text.data(), text.data() + text.size(), ns);
    if (read.ec != std::errc()) {
      return Fail(Code::kDataLoss, "'{}' is not a step time",
                  Excerpt(text, 40));
    }
    times.emplace_back(ns);
    text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
    if (!text.empty()) text.remove_prefix(1);
  }
  return times;
}

std::string TextOf(const std::vector<Nanoseconds>& times) {
  std::string text;
  for (const Nanoseconds time : times) {
    text += fmt::format("{}{}", text.empty() ? "" : ",", time.count());
  }
  return text;
}

Result<JobStepsRecord> StepsOf(const SqlRow& row) {
  JobStepsRecord steps{.revision = row.Int(0),
                       .rank = row.Int(1),
                       .count = row.Int(2),
                       .kept = {}};
  UCUDNN_ASSIGN_OR_RETURN(steps.kept, TimesOf(row.Text(3)));
  return steps;
}

// Updates when the job was last seen; returns its state. kNotFound.
Result<JobState> Hear(SqlTransaction& sql, const std::string& job,
                      UnixMillis now_ms) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto rows,
      sql.Query("UPDATE jobs SET seen_ms = $2, beats = beats + 1, "
                "state = CASE WHEN state = 'lost' THEN 'running' ELSE state "
                "END WHERE id = $1 RETURNING state",
                {job, now_ms}));
  if (rows.empty()) return Fail(Code::kNotFound, "there is no job '{}'", job);
  return ParseJobState(rows[0].Text(0));
}

Result<JobRevisionRecord> Newest(SqlTransaction& sql, const std::string& job) {
  return OneRecord(
      sql.Query(fmt::format("SELECT {} FROM job_revisions WHERE job = $1 "
                            "ORDER BY revision DESC LIMIT 1",
                            kRevisionColumns),
                {job}),
      RevisionOf, fmt::format("revision of job '{}'", job));
}

Status AddSteps(SqlTransaction& sql, const std::string& job,
                const StepReport& report, UnixMillis now_ms) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto rank, sql.Query("UPDATE job_ranks SET seen_ms = $3 "
                                 "WHERE job = $1 AND rank = $2 RETURNING rank",
                                 {job, report.rank, now_ms}));
  if (rank.empty()) {
    return Fail(Code::kInvalidArgument, "job '{}' has no rank {}", job,
                report.rank);
  }
  if (report.steps.empty()) return {};
  UCUDNN_ASSIGN_OR_RETURN(
      const auto revision,
      sql.Query("SELECT revision FROM job_revisions WHERE job = $1 AND "
                "revision = $2",
                {job, report.revision}));
  if (revision.empty()) {
    return Fail(Code::kInvalidArgument, "job '{}' has no revision {}", job,
                report.revision);
  }
  UCUDNN_RETURN_IF_ERROR(sql.Execute(
      "INSERT INTO job_steps (job, revision, rank, count, recent) "
      "VALUES ($1, $2, $3, 0, '') ON CONFLICT (job, revision, rank) DO NOTHING",
      {job, report.revision, report.rank}));
  UCUDNN_ASSIGN_OR_RETURN(
      JobStepsRecord known,
      OneRecord(sql.Query("SELECT revision, rank, count, recent FROM job_steps "
                          "WHERE job = $1 AND revision = $2 AND rank = $3 " +
                              sql.dialect().lock_rows,
                          {job, report.revision, report.rank}),
                StepsOf, "steps"));
  const auto size = static_cast<std::int64_t>(report.steps.size());
  const std::int64_t skipped =
      std::clamp<std::int64_t>(known.count - report.first_step, 0, size);
  if (skipped == size) return {};
  known.count = report.first_step + size;
  known.kept.insert(known.kept.end(), report.steps.begin() + skipped,
                    report.steps.end());
  if (known.kept.size() > kMaxKeptSteps) {
    const auto last = known.kept.begin() + kFirstSteps;
    known.kept.erase(last, last + static_cast<std::ptrdiff_t>(
                                      known.kept.size() - kMaxKeptSteps));
  }
  return sql.Execute(
      "UPDATE job_steps SET count = $4, recent = $5 "
      "WHERE job = $1 AND revision = $2 AND rank = $3",
      {job, report.revision, report.rank, known.count, TextOf(known.kept)});
}

Status CheckReports(std::span<const StepReport> reports) {
  for (const StepReport& report : reports) {
    if (report.first_step < 0 || report.first_step > kMaxCount) {
      return Fail(Code::kInvalidArgument,
                  "first_step is {}; 0 to {} is accepted", report.first_step,
                  kMaxCount);
    }
    for (const Nanoseconds step : report.steps) {
      if (step >= Nanoseconds(0) && step <= Nanoseconds(kMaxCount)) continue;
      return Fail(Code::kInvalidArgument,
                  "a step of {} ns is reported; 0 to {} is accepted",
                  step.count(), kMaxCount);
    }
  }
  return {};
}

Result<bool> PlanExists(SqlTransaction& sql, std::int64_t plan) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto rows, sql.Query("SELECT id FROM plans WHERE id = $1", {plan}));
  return !rows.empty();
}

}  // namespace

Status SqlStore::RegisterJob(const JobRecord& job,
                             std::span<const JobRankRecord> ranks,
                             std::optional<std::int64_t> plan,
                             UnixMillis now_ms) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the job's id", job.id));
  return database_->Run(Access::kWrite, [&](SqlTransaction& sql) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto added,
        sql.Query(
            "INSERT INTO jobs (id, name, state, request, source, reason, "
            "revision, created_ms, seen_ms) VALUES ($1, $2, 'running', "
            "$3, $4, $5, 1, $6, $6) ON CONFLICT (id) DO NOTHING "
            "RETURNING id",
            {job.id, job.name, job.request, job.source, job.reason, now_ms}));
    if (added.empty()) {
      UCUDNN_RETURN_IF_ERROR(Hear(sql, job.id, now_ms));
      return {};
    }
    SqlValue known = SqlNull();
    if (plan) {
      UCUDNN_ASSIGN_OR_RETURN(const bool exists, PlanExists(sql, *plan));
      if (exists) known = *plan;
    }
    UCUDNN_RETURN_IF_ERROR(sql.Execute(
        "INSERT INTO job_revisions (job, revision, plan, reason, rejected, "
        "created_ms, adopted_ms) VALUES ($1, 1, $2, $3, '', $4, $4)",
        {job.id, known, std::string("the job began"), now_ms}));
    return InPieces(
        sql.dialect(), ranks, [&](std::span<const JobRankRecord> piece) {
          SqlRows rows(
              "(CAST($ AS TEXT), CAST($ AS BIGINT), CAST($ AS TEXT), "
              "CAST($ AS TEXT), CAST($ AS TEXT), CAST($ AS BIGINT))");
          for (const JobRankRecord& rank : piece) {
            rows.Add(
                {job.id, rank.rank, rank.device, rank.kind, rank.host, now_ms});
          }
          return sql.Execute(
              "INSERT INTO job_ranks (job, rank, device, kind, host, seen_ms) "
              "VALUES " +
                  rows.Text() + " ON CONFLICT (job, rank) DO NOTHING",
              rows.parameters());
        });
  });
}

Result<JobHeard> SqlStore::ReportSteps(const std::string& job,
                                       std::span<const StepReport> reports,
                                       UnixMillis now_ms) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the job's id", job));
  UCUDNN_RETURN_IF_ERROR(CheckReports(reports));
  return InTransaction(
      *database_, Access::kWrite, [&](SqlTransaction& sql) -> Result<JobHeard> {
        JobHeard heard;
        UCUDNN_ASSIGN_OR_RETURN(heard.state, Hear(sql, job, now_ms));
        for (const StepReport& report : reports) {
          UCUDNN_RETURN_IF_ERROR(AddSteps(sql, job, report, now_ms));
        }
        UCUDNN_ASSIGN_OR_RETURN(heard.newest, Newest(sql, job));
        return heard;
      });
}

Result<JobRevisionRecord> SqlStore::AddJobRevision(const std::string& job,
                                                   std::int64_t plan,
                                                   const std::string& reason,
                                                   UnixMillis now_ms) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the job's id", job));
  return InTransaction(
      *database_, Access::kWrite,
      [&](SqlTransaction& sql) -> Result<JobRevisionRecord> {
        // Locks the job, so that concurrent calls add one after the other.
        UCUDNN_ASSIGN_OR_RETURN(
            const JobRecord record,
            OneRecord(
                sql.Query(fmt::format("SELECT {} FROM jobs WHERE id = $1 "
                                      "{}",
                                      kJobColumns, sql.dialect().lock_rows),
                          {job}),
                JobOf, fmt::format("job '{}'", job)));
        if (record.state == JobState::kFinished) {
          return Fail(Code::kFailedPrecondition, "job '{}' is finished", job);
        }
        UCUDNN_ASSIGN_OR_RETURN(const bool exists, PlanExists(sql, plan));
        if (!exists) return Fail(Code::kNotFound, "there is no plan {}", plan);
        UCUDNN_ASSIGN_OR_RETURN(const JobRevisionRecord newest,
                                Newest(sql, job));
        if (newest.plan == plan && newest.rejected.empty()) return newest;
        JobRevisionRecord added{.revision = newest.revision + 1,
                                .plan = plan,
                                .reason = reason,
                                .rejected = "",
                                .created_ms = now_ms,
                                .adopted_ms = 0};
        UCUDNN_RETURN_IF_ERROR(sql.Execute(
            "INSERT INTO job_revisions (job, revision, plan, reason, rejected, "
            "created_ms, adopted_ms) VALUES ($1, $2, $3, $4, '', $5, 0)",
            {job, added.revision, plan, reason, now_ms}));
        return added;
      });
}

Status SqlStore::AnswerJobRevision(const std::string& job,
                                   std::int64_t revision,
                                   const std::string& rejected,
                                   UnixMillis now_ms) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the job's id", job));
  return database_->Run(Access::kWrite, [&](SqlTransaction& sql) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto rows,
        sql.Query("UPDATE job_revisions SET rejected = $3, adopted_ms = "
                  "CASE WHEN $3 <> '' THEN 0 WHEN adopted_ms = 0 THEN $4 ELSE "
                  "adopted_ms END WHERE job = $1 AND revision = $2 "
                  "RETURNING revision",
                  {job, revision, rejected, now_ms}));
    if (rows.empty()) {
      return Fail(Code::kNotFound, "job '{}' has no revision {}", job,
                  revision);
    }
    if (!rejected.empty()) return {};
    return sql.Execute(
        "UPDATE jobs SET revision = $2 WHERE id = $1 AND revision < $2",
        {job, revision});
  });
}

Status SqlStore::FinishJob(const std::string& job, UnixMillis now_ms) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the job's id", job));
  return database_->Run(Access::kWrite, [&](SqlTransaction& sql) -> Status {
    UCUDNN_RETURN_IF_ERROR(Hear(sql, job, now_ms));
    return sql.Execute("UPDATE jobs SET state = 'finished' WHERE id = $1",
                       {job});
  });
}

Result<std::vector<Pulse>> SqlStore::ListJobPulses() {
  return InTransaction(*database_, Access::kRead, [](SqlTransaction& sql) {
    return ReadPulses(sql,
                      "SELECT id, beats FROM jobs WHERE state = 'running'");
  });
}

Result<std::vector<std::string>> SqlStore::ExpireJobs(
    std::span<const Pulse> silent) {
  return InTransaction(*database_, Access::kWrite, [&](SqlTransaction& sql) {
    return UpdateSilent(sql, silent,
                        "UPDATE jobs SET state = 'lost' FROM silent "
                        "WHERE jobs.id = silent.id AND "
                        "jobs.beats = silent.beats AND "
                        "jobs.state = 'running' RETURNING jobs.id");
  });
}

Result<std::vector<JobRecord>> SqlStore::ListJobs(std::int64_t limit,
                                                  const std::string& after) {
  UCUDNN_RETURN_IF_ERROR(CheckLimit(limit));
  return InTransaction(
      *database_, Access::kRead,
      [&](SqlTransaction& sql) -> Result<std::vector<JobRecord>> {
        std::vector<SqlValue> parameters = {limit};
        std::string older;
        if (!after.empty()) {
          UCUDNN_ASSIGN_OR_RETURN(
              const auto last,
              sql.Query("SELECT created_ms FROM jobs WHERE id = $1", {after}));
          if (last.empty()) {
            return Fail(Code::kInvalidArgument,
                        "after is '{}'; the id of a job is accepted", after);
          }
          older = "WHERE created_ms < $2 OR (created_ms = $2 AND id > $3) ";
          parameters.emplace_back(last[0].Int(0));
          parameters.emplace_back(after);
        }
        return Records(
            sql.Query(fmt::format("SELECT {} FROM jobs {}"
                                  "ORDER BY created_ms DESC, id LIMIT $1",
                                  kJobColumns, older),
                      parameters),
            JobOf);
      });
}

Result<JobDetails> SqlStore::GetJob(const std::string& id) {
  return InTransaction(
      *database_, Access::kRead,
      [&](SqlTransaction& sql) -> Result<JobDetails> {
        JobDetails details;
        UCUDNN_ASSIGN_OR_RETURN(
            details.job,
            OneRecord(sql.Query(fmt::format("SELECT {} FROM jobs WHERE id = $1",
                                            kJobColumns),
                                {id}),
                      JobOf, fmt::format("job '{}'", id)));
        UCUDNN_ASSIGN_OR_RETURN(
            details.revisions,
            Records(sql.Query(fmt::format("SELECT {} FROM job_revisions WHERE "
                                          "job = $1 ORDER BY revision",
                                          kRevisionColumns),
                              {id}),
                    RevisionOf));
        UCUDNN_ASSIGN_OR_RETURN(
            details.ranks,
            Records(sql.Query("SELECT rank, device, kind, host, seen_ms FROM "
                              "job_ranks WHERE job = $1 ORDER BY rank",
                              {id}),
                    RankOf));
        UCUDNN_ASSIGN_OR_RETURN(
            details.steps,
            Records(sql.Query("SELECT revision, rank, count, recent FROM "
                              "job_steps WHERE job = $1 ORDER BY revision, "
                              "rank",
                              {id}),
                    StepsOf));
        return details;
      });
}

Status SqlStore::DeleteJob(const std::string& id, const ActionRecord& action) {
  return database_->Run(Access::kWrite, [&](SqlTransaction& sql) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(
        const JobRecord job,
        OneRecord(sql.Query(fmt::format("SELECT {} FROM jobs WHERE id = $1 {}",
                                        kJobColumns, sql.dialect().lock_rows),
                            {id}),
                  JobOf, fmt::format("job '{}'", id)));
    if (job.state == JobState::kRunning) {
      return Fail(Code::kFailedPrecondition,
                  "job '{}' is running; finished and lost jobs are deleted",
                  id);
    }
    for (const char* table : {"job_steps", "job_ranks", "job_revisions"}) {
      UCUDNN_RETURN_IF_ERROR(sql.Execute(
          fmt::format("DELETE FROM {} WHERE job = $1", table), {id}));
    }
    UCUDNN_RETURN_IF_ERROR(sql.Execute("DELETE FROM jobs WHERE id = $1", {id}));
    return ucudnn::AddAction(sql, action);
  });
}

}  // namespace ucudnn
