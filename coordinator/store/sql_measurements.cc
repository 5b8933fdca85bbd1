// Measurements, and the profiles made of them.

#include <algorithm>
#include <tuple>

#include "coordinator/store/sql_store.h"

namespace ucudnn {
namespace {

// What makes two measurements the same point.
auto PointKey(const Measurement& m) {
  return std::tie(m.kind, m.problem, m.point.batch, m.point.algorithm,
                  m.point.workspace);
}

// The one of each point that stays, ordered by point: one statement must not
// meet a row twice, and writers that lock rows in one order do not deadlock.
std::vector<const Measurement*> Newest(
    std::span<const Measurement> measurements) {
  std::vector<const Measurement*> sorted;
  sorted.reserve(measurements.size());
  for (const Measurement& m : measurements) sorted.push_back(&m);
  std::ranges::stable_sort(sorted, [](const auto* a, const auto* b) {
    return std::tuple(PointKey(*a), a->measured_ms) <
           std::tuple(PointKey(*b), b->measured_ms);
  });
  std::vector<const Measurement*> newest;
  newest.reserve(sorted.size());
  for (const Measurement* m : sorted) {
    if (!newest.empty() && PointKey(*newest.back()) == PointKey(*m)) {
      newest.back() = m;
    } else {
      newest.push_back(m);
    }
  }
  return newest;
}

Status Check(const Measurement& m) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("a measurement's kind", m.kind));
  UCUDNN_RETURN_IF_ERROR(CheckKey("a measurement's problem", m.problem));
  UCUDNN_RETURN_IF_ERROR(
      CheckKey("a measurement's algorithm", m.point.algorithm.name));
  if (m.point.algorithm.math.empty()) return {};
  return CheckKey("a measurement's math mode", m.point.algorithm.math);
}

// The columns that PointOf reads.
constexpr char kPointColumns[] =
    "batch, algorithm, math, precision_name, workspace_bytes, time_ns, "
    "spread_ns, repeats, min_ns, p90_ns, enqueue_ns";

Result<MeasuredPoint> PointOf(const SqlRow& row, std::size_t first) {
  UCUDNN_ASSIGN_OR_RETURN(const Precision precision,
                          ParsePrecision(row.Text(first + 3)));
  return MeasuredPoint{.batch = BatchSize(row.Int(first)),
                       .algorithm = {.name = row.Text(first + 1),
                                     .math = row.Text(first + 2),
                                     .precision = precision},
                       .workspace = Bytes(row.Int(first + 4)),
                       .time = Nanoseconds(row.Int(first + 5)),
                       .spread = Nanoseconds(row.Int(first + 6)),
                       .repeats = static_cast<int>(row.Int(first + 7)),
                       .min = Nanoseconds(row.Int(first + 8)),
                       .p90 = Nanoseconds(row.Int(first + 9)),
                       .enqueue = Nanoseconds(row.Int(first + 10))};
}

}  // namespace

Status UpsertMeasurements(SqlTransaction& sql,
                          std::span<const Measurement> measurements) {
  for (const Measurement& m : measurements) UCUDNN_RETURN_IF_ERROR(Check(m));
  const std::vector<const Measurement*> newest = Newest(measurements);
  return InPieces(
      sql.dialect(), std::span<const Measurement* const>(newest),
      [&](auto piece) -> Status {
        SqlRows rows(
            "($, $, $, $, $, $, $, $, $, $, $, $, $, $, $, $, $, $, $)");
        for (const Measurement* m : piece) {
          const MeasuredPoint& p = m->point;
          rows.Add({m->kind, m->problem, p.batch.count(), p.algorithm.name,
                    p.algorithm.math, std::string(Name(p.algorithm.precision)),
                    p.workspace.count(), std::int64_t{p.time.count()},
                    std::int64_t{p.spread.count()}, std::int64_t{p.repeats},
                    m->device, m->driver, m->measured_ms,
                    std::int64_t{p.min.count()}, std::int64_t{p.p90.count()},
                    m->clocks.sm_mhz, m->clocks.memory_mhz, m->clocks.throttle,
                    std::int64_t{p.enqueue.count()}});
        }
        return sql.Execute(
            "INSERT INTO measurements (kind, problem, batch, algorithm, math, "
            "precision_name, workspace_bytes, time_ns, spread_ns, repeats, "
            "device, driver, measured_ms, min_ns, p90_ns, sm_clock_mhz, "
            "memory_clock_mhz, throttle, enqueue_ns) VALUES " +
                rows.Text() +
                " ON CONFLICT (kind, problem, batch, algorithm, math, "
                "precision_name, workspace_bytes) DO UPDATE SET "
                "time_ns = excluded.time_ns, spread_ns = excluded.spread_ns, "
                "repeats = excluded.repeats, device = excluded.device, "
                "driver = excluded.driver, "
                "measured_ms = excluded.measured_ms, "
                "min_ns = excluded.min_ns, p90_ns = excluded.p90_ns, "
                "sm_clock_mhz = excluded.sm_clock_mhz, "
                "memory_clock_mhz = excluded.memory_clock_mhz, "
                "throttle = excluded.throttle, "
                "enqueue_ns = excluded.enqueue_ns "
                "WHERE excluded.measured_ms >= measurements.measured_ms",
            rows.parameters());
      });
}

Status SqlStore::PutMeasurements(std::span<const Measurement> measurements) {
  return database_->Run(Access::kWrite, [&](SqlTransaction& sql) {
    return UpsertMeasurements(sql, measurements);
  });
}

Status SqlStore::ImportProfile(std::span<const Measurement> measurements,
                               std::span<const CompleteBatch> batches,
                               UnixMillis now_ms) {
  std::vector<CompleteBatch> sorted(batches.begin(), batches.end());
  for (const CompleteBatch& batch : sorted) {
    UCUDNN_RETURN_IF_ERROR(CheckKey("a complete batch's kind", batch.kind));
    UCUDNN_RETURN_IF_ERROR(
        CheckKey("a complete batch's problem", batch.problem));
  }
  const auto key = [](const CompleteBatch& b) {
    return std::tie(b.kind, b.problem, b.batch);
  };
  std::ranges::sort(sorted, {}, key);
  const auto same = [&](const CompleteBatch& a, const CompleteBatch& b) {
    return key(a) == key(b);
  };
  sorted.erase(std::unique(sorted.begin(), sorted.end(), same), sorted.end());
  return database_->Run(Access::kWrite, [&](SqlTransaction& sql) -> Status {
    UCUDNN_RETURN_IF_ERROR(UpsertMeasurements(sql, measurements));
    return InPieces(
        sql.dialect(), std::span<const CompleteBatch>(sorted),
        [&](auto piece) -> Status {
          SqlRows rows(
              "($, $, $, '', $, 0, 'done', 0, 0, 0, '', '', 0, '', $, $, $)");
          for (const CompleteBatch& b : piece) {
            rows.Add({b.kind, b.problem, b.batch.count(),
                      b.max_workspace.count(), now_ms, now_ms, b.driver});
          }
          return sql.Execute(
              "INSERT INTO tasks (kind, problem, batch, goal, "
              "max_workspace_bytes, priority, state, attempts, failures, "
              "lease_token, agent, device, lease_until_ms, error, created_ms, "
              "finished_ms, driver) VALUES " +
                  rows.Text() +
                  " ON CONFLICT (kind, problem, batch, goal) DO UPDATE SET "
                  "state = 'done', error = '', driver = excluded.driver, "
                  "finished_ms = excluded.finished_ms "
                  "WHERE tasks.state IN ('pending', 'failed') AND "
                  "tasks.max_workspace_bytes <= excluded.max_workspace_bytes",
              rows.parameters());
        });
  });
}

Result<std::vector<CompleteBatch>> SqlStore::ListCompleteBatches(
    const std::string& kind, const std::string& problem) {
  std::string of_problem;
  std::vector<SqlValue> parameters = {kind};
  if (!problem.empty()) {
    of_problem = "AND problem = $2 ";
    parameters.emplace_back(problem);
  }
  return InTransaction(*database_, Access::kRead, [&](SqlTransaction& sql) {
    return Records(
        sql.Query(
            fmt::format("SELECT kind, problem, batch, max_workspace_bytes, "
                        "driver FROM tasks WHERE kind = $1 {}AND goal = '' AND "
                        "state = 'done' ORDER BY problem, batch",
                        of_problem),
            parameters),
        [](const SqlRow& row) -> Result<CompleteBatch> {
          return CompleteBatch{row.Text(0), row.Text(1), BatchSize(row.Int(2)),
                               Bytes(row.Int(3)), row.Text(4)};
        });
  });
}

Result<std::vector<Measurement>> SqlStore::LoadMeasurements(
    const std::string& kind) {
  return InTransaction(*database_, Access::kRead, [&](SqlTransaction& sql) {
    auto measurements = Records(
        sql.Query(fmt::format("SELECT problem, device, driver, measured_ms, "
                              "sm_clock_mhz, memory_clock_mhz, throttle, {} "
                              "FROM measurements WHERE kind = $1",
                              kPointColumns),
                  {kind}),
        [&](const SqlRow& row) -> Result<Measurement> {
          Measurement m{.kind = kind,
                        .problem = row.Text(0),
                        .point = {},
                        .device = row.Text(1),
                        .driver = row.Text(2),
                        .measured_ms = row.Int(3),
                        .clocks = {row.Int(4), row.Int(5), row.Text(6)}};
          UCUDNN_ASSIGN_OR_RETURN(m.point, PointOf(row, 7));
          return m;
        });
    if (measurements) std::ranges::sort(*measurements, {}, PointKey);
    return measurements;
  });
}

Result<PointsByProblem> SqlStore::LoadProfile(
    const std::string& kind, std::span<const std::string> problems,
    std::span<const BatchSize> batches, std::span<const std::string> drivers) {
  std::string of_batches;
  if (!batches.empty()) {
    std::vector<std::int64_t> counts;
    for (const BatchSize batch : batches) counts.push_back(batch.count());
    of_batches = fmt::format("AND batch IN ({}) ", fmt::join(counts, ", "));
  }
  PointsByProblem points;
  const auto load_some = [&](SqlTransaction& sql,
                             const std::string& of_problems,
                             std::span<const SqlValue> given) -> Status {
    std::vector<SqlValue> parameters(given.begin(), given.end());
    std::string of_drivers;
    for (const std::string& driver : drivers) {
      parameters.emplace_back(driver);
      of_drivers += fmt::format("{}${}", of_drivers.empty() ? "" : ", ",
                                parameters.size());
    }
    if (!drivers.empty()) of_drivers = "AND driver IN (" + of_drivers + ")";
    UCUDNN_ASSIGN_OR_RETURN(
        const auto found,
        sql.Query(
            fmt::format("SELECT problem, {} FROM measurements "
                        "WHERE kind = $1 {}{}{}",
                        kPointColumns, of_problems, of_batches, of_drivers),
            parameters));
    for (const SqlRow& row : found) {
      UCUDNN_ASSIGN_OR_RETURN(MeasuredPoint point, PointOf(row, 1));
      points[row.Text(0)].push_back(std::move(point));
    }
    return {};
  };
  const auto load = [&](SqlTransaction& sql) -> Status {
    points.clear();
    if (problems.empty()) {
      return load_some(sql, "", SqlRows("$", {kind}).parameters());
    }
    return InPieces(sql.dialect(), problems, [&](auto piece) -> Status {
      SqlRows rows("$", {kind});
      for (const std::string& problem : piece) rows.Add({problem});
      return load_some(sql, "AND problem IN (" + rows.Text() + ") ",
                       rows.parameters());
    });
  };
  UCUDNN_RETURN_IF_ERROR(database_->Run(Access::kRead, load));
  for (auto& [problem, of_problem] : points) {
    std::ranges::sort(of_problem, {}, [](const MeasuredPoint& p) {
      return std::tie(p.batch, p.algorithm, p.workspace);
    });
    // A problem may have been named twice, in two pieces.
    of_problem.erase(std::unique(of_problem.begin(), of_problem.end()),
                     of_problem.end());
  }
  return points;
}

Result<std::vector<ProfileSummary>> SqlStore::ListProfiles() {
  using Summaries = std::vector<ProfileSummary>;
  return InTransaction(
      *database_, Access::kRead, [](SqlTransaction& sql) -> Result<Summaries> {
        UCUDNN_ASSIGN_OR_RETURN(
            Summaries profiles,
            Records(sql.Query("SELECT kind, COUNT(DISTINCT problem), COUNT(*), "
                              "MAX(measured_ms) FROM measurements GROUP BY "
                              "kind ORDER BY kind"),
                    [](const SqlRow& row) -> Result<ProfileSummary> {
                      ProfileSummary summary;
                      summary.kind = row.Text(0);
                      summary.problems = row.Int(1);
                      summary.points = row.Int(2);
                      summary.last_measured_ms = row.Int(3);
                      return summary;
                    }));
        UCUDNN_ASSIGN_OR_RETURN(
            const auto counts,
            sql.Query("SELECT kind, driver, COUNT(*) FROM measurements "
                      "GROUP BY kind, driver"));
        for (const SqlRow& row : counts) {
          const auto of_kind =
              std::ranges::find(profiles, row.Text(0), &ProfileSummary::kind);
          if (of_kind != profiles.end()) {
            of_kind->points_by_driver[row.Text(1)] = row.Int(2);
          }
        }
        return profiles;
      });
}

}  // namespace ucudnn
