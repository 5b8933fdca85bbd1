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
    "spread_ns, repeats, min_ns, p90_ns";

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
                       .p90 = Nanoseconds(row.Int(first + 9))};
}

}  // namespace

Status UpsertMeasurements(SqlTransaction& sql,
                          std::span<const Measurement> measurements) {
  for (const Measurement& m : measurements) UCUDNN_RETURN_IF_ERROR(Check(m));
  const std::vector<const Measurement*> newest = Newest(measurements);
  return InPieces(
      sql.dialect(), std::span<const Measurement* const>(newest),
      [&](auto piece) -> Status {
        SqlRows rows("($, $, $, $, $, $, $, $, $, $, $, $, $, $, $, $, $, $)");
        for (const Measurement* m : piece) {
          const MeasuredPoint& p = m->point;
          rows.Add({m->kind, m->problem, p.batch.count(), p.algorithm.name,
                    p.algorithm.math, std::string(Name(p.algorithm.precision)),
                    p.workspace.count(), std::int64_t{p.time.count()},
                    std::int64_t{p.spread.count()}, std::int64_t{p.repeats},
                    m->device, m->driver, m->measured_ms,
                    std::int64_t{p.min.count()}, std::int64_t{p.p90.count()},
                    m->clocks.sm_mhz, m->clocks.memory_mhz,
                    m->clocks.throttle});
        }
        return sql.Execute(
            "INSERT INTO measurements (kind, problem, batch, algorithm, math, "
            "precision_name, workspace_bytes, time_ns, spread_ns, repeats, "
            "device, driver, measured_ms, min_ns, p90_ns, sm_clock_mhz, "
            "memory_clock_mhz, throttle) VALUES " +
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
                "throttle = excluded.throttle "
                "WHERE excluded.measured_ms >= measurements.measured_ms",
            rows.parameters());
      });
}

Status SqlStore::PutMeasurements(std::span<const Measurement> measurements) {
  return database_->Run(Access::kWrite, [&](SqlTransaction& sql) {
    return UpsertMeasurements(sql, measurements);
  });
}

Result<PointsByProblem> SqlStore::LoadProfile(
    const std::string& kind, std::span<const std::string> problems,
    std::span<const BatchSize> batches) {
  std::string of_batches;
  if (!batches.empty()) {
    std::vector<std::int64_t> counts;
    for (const BatchSize batch : batches) counts.push_back(batch.count());
    of_batches = fmt::format("AND batch IN ({}) ", fmt::join(counts, ", "));
  }
  PointsByProblem points;
  const auto load_some = [&](SqlTransaction& sql,
                             const std::string& of_problems,
                             const auto& parameters) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto found,
        sql.Query(fmt::format("SELECT problem, {} FROM measurements "
                              "WHERE kind = $1 {}{}",
                              kPointColumns, of_problems, of_batches),
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
  return InTransaction(*database_, Access::kRead, [](SqlTransaction& sql) {
    return Records(sql.Query("SELECT kind, COUNT(DISTINCT problem), COUNT(*), "
                             "MAX(measured_ms) FROM measurements GROUP BY kind "
                             "ORDER BY kind"),
                   [](const SqlRow& row) -> Result<ProfileSummary> {
                     return ProfileSummary{.kind = row.Text(0),
                                           .problems = row.Int(1),
                                           .points = row.Int(2),
                                           .last_measured_ms = row.Int(3)};
                   });
  });
}

}  // namespace ucudnn
