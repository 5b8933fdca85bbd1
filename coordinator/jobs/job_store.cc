#include "coordinator/jobs/job_store.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.h"
#include "coordinator/jobs/job_rows.h"

namespace ucudnn {
namespace {

constexpr std::array<std::string_view, 3> kJobStates = {"running", "finished",
                                                        "lost"};

constexpr char kJobColumns[] =
    "id, name, state, request, source, reason, revision, created_ms, seen_ms, "
    "auto_replan, (SELECT COALESCE(MAX(r.revision), 0) FROM job_revisions r "
    "WHERE r.job = jobs.id AND r.proposed = 1), (SELECT r.plan FROM "
    "job_revisions r WHERE r.job = jobs.id AND r.revision = jobs.revision), "
    "asked_by";

// Counts and times of steps stay below this, so that sums do not overflow.
Result<JobRecord> JobOf(const SqlRow& row) {
  JobRecord job{
      .id = row.Text(0),
      .name = row.Text(1),
      .state = JobState::kRunning,
      .request = row.Bytes(3),
      .source = row.Text(4),
      .reason = row.Text(5),
      .revision = row.Int(6),
      .auto_replan = row.Int(9) != 0,
      .proposed = row.Int(10),
      .plan = row.IsNull(11) ? std::nullopt : std::optional(row.Int(11)),
      .asked_by = row.Text(12),
      .created_ms = row.Int(7),
      .seen_ms = row.Int(8)};
  UCUDNN_ASSIGN_OR_RETURN(job.state, ParseJobState(row.Text(2)));
  return job;
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

// Whether the job has this revision or a later one.
Result<bool> Reached(SqlTransaction& sql, const std::string& job,
                     std::int64_t revision) {
  UCUDNN_ASSIGN_OR_RETURN(const auto rows,
                          sql.Query("SELECT revision FROM job_revisions WHERE "
                                    "job = $1 AND revision >= $2 LIMIT 1",
                                    {job, revision}));
  return !rows.empty();
}

Status AddSteps(SqlTransaction& sql, const std::string& job,
                const StepReport& report, UnixMillis now_ms) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto rank, sql.Query("UPDATE job_ranks SET seen_ms = $3, "
                                 "beats = beats + 1 "
                                 "WHERE job = $1 AND rank = $2 RETURNING rank",
                                 {job, report.rank, now_ms}));
  if (rank.empty()) {
    return Fail(Code::kInvalidArgument, "job '{}' has no rank {}", job,
                report.rank);
  }
  if (report.steps.empty()) return {};
  UCUDNN_ASSIGN_OR_RETURN(const bool reached,
                          Reached(sql, job, report.revision));
  if (!reached) {
    return Fail(Code::kNotFound, "job '{}' has no revision {}", job,
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
    if (report.revision < 1) {
      return Fail(Code::kInvalidArgument,
                  "revision is {}; 1 or more is accepted", report.revision);
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

}  // namespace

std::string_view Name(JobState state) {
  return kJobStates.at(static_cast<std::size_t>(state));
}
Result<JobState> ParseJobState(std::string_view text) {
  return ParseState<JobState>(kJobStates, "a job's state", text);
}

Status JobStore::RegisterJob(const JobRecord& job,
                             std::span<const JobRankRecord> ranks,
                             std::optional<std::int64_t> plan,
                             UnixMillis now_ms) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the job's id", job.id));
  return database_.Write([&](SqlTransaction& sql) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto added,
        sql.Query(
            "INSERT INTO jobs (id, name, state, request, source, reason, "
            "revision, created_ms, seen_ms, auto_replan, asked_by, ranks) "
            "VALUES ($1, $2, 'running', $3, $4, $5, $10, $6, $6, $7, $8, $9) "
            "ON CONFLICT (id) DO NOTHING RETURNING id",
            {job.id, job.name, SqlBytes{job.request}, job.source, job.reason,
             now_ms, std::int64_t{job.auto_replan}, job.asked_by,
             std::ssize(ranks), job.revision}));
    if (added.empty()) {
      UCUDNN_RETURN_IF_ERROR(Hear(sql, job.id, now_ms));
      UCUDNN_ASSIGN_OR_RETURN(const bool known,
                              Reached(sql, job.id, job.revision));
      if (known) return {};
      UCUDNN_RETURN_IF_ERROR(
          sql.Execute("UPDATE jobs SET request = $2, revision = $3 "
                      "WHERE id = $1",
                      {job.id, SqlBytes{job.request}, job.revision}));
    }
    SqlValue known = SqlNull();
    if (plan) {
      UCUDNN_ASSIGN_OR_RETURN(const auto exists, PredictedBy(sql, *plan));
      if (exists) known = *plan;
    }
    UCUDNN_RETURN_IF_ERROR(sql.Execute(
        "INSERT INTO job_revisions (job, revision, plan, reason, rejected, "
        "created_ms, adopted_ms) VALUES ($1, $2, $3, $4, '', $5, $5)",
        {job.id, job.revision, known,
         std::string(job.revision == 1 ? "the job began"
                                       : "the job registered again"),
         now_ms}));
    if (added.empty()) return {};
    SqlRows rows(
        "job TEXT, rank BIGINT, device TEXT, kind TEXT, host TEXT, "
        "seen_ms BIGINT");
    for (const JobRankRecord& rank : ranks) {
      rows.Add({job.id, rank.rank, rank.device, rank.kind, rank.host, now_ms});
    }
    return sql.Execute(
        "INSERT INTO job_ranks (job, rank, device, kind, host, seen_ms) "
        "$values ON CONFLICT (job, rank) DO NOTHING",
        rows);
  });
}

Result<JobHeard> JobStore::ReportSteps(const std::string& job,
                                       std::span<const StepReport> reports,
                                       UnixMillis now_ms) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the job's id", job));
  UCUDNN_RETURN_IF_ERROR(CheckReports(reports));
  return database_.Write([&](SqlTransaction& sql) -> Result<JobHeard> {
    JobHeard heard;
    UCUDNN_ASSIGN_OR_RETURN(heard.state, Hear(sql, job, now_ms));
    for (const StepReport& report : reports) {
      UCUDNN_RETURN_IF_ERROR(AddSteps(sql, job, report, now_ms));
    }
    UCUDNN_ASSIGN_OR_RETURN(heard.newest, NewestRevision(sql, job));
    return heard;
  });
}

Status JobStore::FinishJob(const std::string& job, UnixMillis now_ms) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the job's id", job));
  return database_.Write([&](SqlTransaction& sql) -> Status {
    UCUDNN_RETURN_IF_ERROR(Hear(sql, job, now_ms));
    UCUDNN_RETURN_IF_ERROR(
        sql.Execute("UPDATE job_revisions SET proposed = 2, "
                    "rejected = 'withdrawn: the job ended' "
                    "WHERE job = $1 AND proposed = 1",
                    {job}));
    return sql.Execute("UPDATE jobs SET state = 'finished' WHERE id = $1",
                       {job});
  });
}

Result<std::int64_t> JobStore::CountRanksOf(const std::string& asked_by,
                                            UnixMillis since_ms) {
  return database_.Read([&](SqlTransaction& sql) -> Result<std::int64_t> {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto rows, sql.Query("SELECT COALESCE(SUM(ranks), 0) FROM jobs "
                                   "WHERE asked_by = $1 AND created_ms > $2",
                                   {asked_by, since_ms}));
    return rows.at(0).Int(0);
  });
}

Result<std::vector<Pulse>> JobStore::ListJobPulses() {
  return database_.Read([](SqlTransaction& sql) {
    return ReadPulses(sql,
                      "SELECT id, beats FROM jobs WHERE state = 'running'");
  });
}

Result<std::vector<RankPulse>> JobStore::ListRankPulses() {
  return database_.Read([](SqlTransaction& sql) {
    return Records(
        sql.Query("SELECT r.job, r.rank, r.beats FROM jobs j JOIN job_ranks r "
                  "ON r.job = j.id WHERE j.state = 'running' "
                  "ORDER BY r.job, r.rank"),
        [](const SqlRow& row) -> Result<RankPulse> {
          return RankPulse{row.Text(0), row.Int(1), row.Int(2)};
        });
  });
}

Result<std::vector<std::string>> JobStore::ExpireJobs(
    std::span<const Pulse> silent) {
  return database_.Write([&](SqlTransaction& sql) {
    return UpdateSilent(sql, silent,
                        "UPDATE jobs SET state = 'lost' FROM $rows "
                        "WHERE jobs.id = rows.id AND "
                        "jobs.beats = rows.beats AND "
                        "jobs.state = 'running' RETURNING jobs.id");
  });
}

Result<std::vector<JobRecord>> JobStore::ListJobs(std::int64_t limit,
                                                  const std::string& after) {
  UCUDNN_RETURN_IF_ERROR(CheckLimit(limit));
  return database_.Read(
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

Result<JobCounts> JobStore::CountJobs() {
  return database_.Read([](SqlTransaction& sql) -> Result<JobCounts> {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto rows,
        sql.Query("SELECT state, COUNT(*) FROM jobs GROUP BY state"));
    JobCounts counts;
    for (const SqlRow& row : rows) {
      UCUDNN_ASSIGN_OR_RETURN(const JobState state, ParseJobState(row.Text(0)));
      std::int64_t& of_state = state == JobState::kRunning ? counts.running
                               : state == JobState::kLost  ? counts.lost
                                                           : counts.finished;
      of_state = row.Int(1);
    }
    return counts;
  });
}

Result<JobDetails> JobStore::GetJob(const std::string& id) {
  return database_.Read([&](SqlTransaction& sql) -> Result<JobDetails> {
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

Status DeleteJobRows(SqlTransaction& sql, const std::string& job) {
  for (const char* table : {"job_steps", "job_ranks", "job_revisions"}) {
    UCUDNN_RETURN_IF_ERROR(sql.Execute(
        fmt::format("DELETE FROM {} WHERE job = $1", table), {job}));
  }
  return sql.Execute("DELETE FROM jobs WHERE id = $1", {job});
}

Status JobStore::DeleteJob(const std::string& id, const ActionRecord& action) {
  return database_.Write([&](SqlTransaction& sql) -> Status {
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
    UCUDNN_RETURN_IF_ERROR(DeleteJobRows(sql, id));
    return ucudnn::AddAction(sql, action);
  });
}

}  // namespace ucudnn
