// Measurements and profiles.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "coordinator/store/sql_store.h"

namespace ucudnn {
namespace {

// Identifies a measurement's point.
auto PointKey(const Measurement& m) {
  return std::tie(m.kind, m.problem, m.point.batch, m.point.algorithm,
                  m.point.workspace);
}

// The last measurement of each point, sorted by point: one statement must
// not update a row twice, and writers that lock rows in the same order do not
// deadlock.
std::vector<const Measurement*> Newest(
    std::span<const Measurement> measurements) {
  std::vector<const Measurement*> sorted;
  sorted.reserve(measurements.size());
  for (const Measurement& m : measurements) sorted.push_back(&m);
  std::ranges::stable_sort(sorted, [](const auto* a, const auto* b) {
    return PointKey(*a) < PointKey(*b);
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

constexpr char kOriginColumns[] =
    "device, driver, measured_ms, sm_clock_mhz, memory_clock_mhz, throttle";

// "time_ns, spread_ns, ...", each formatted by `format`.
std::string NumberColumns(
    fmt::format_string<const std::string_view&> format = "{}") {
  std::vector<std::string> columns;
  for (const PointNumber& number : PointNumbers()) {
    columns.push_back(fmt::format(format, number.name));
  }
  return fmt::format("{}", fmt::join(columns, ", "));
}

std::string PointColumns() {
  return "batch, algorithm, math, precision_name, workspace_bytes, " +
         NumberColumns();
}

// Reads the columns of PointColumns(), starting at `*column`, and moves
// `*column` past them.
Result<MeasuredPoint> PointOf(const SqlRow& row, std::size_t* column) {
  const std::size_t first = *column;
  UCUDNN_ASSIGN_OR_RETURN(
      MeasuredPoint point,
      MakePoint(row.Int(first), row.Text(first + 1), row.Text(first + 2),
                row.Text(first + 3), row.Int(first + 4)));
  *column += 5;
  for (const PointNumber& number : PointNumbers()) {
    UCUDNN_RETURN_IF_ERROR(SetNumber(number, row.Int((*column)++), &point));
  }
  return point;
}

PointOrigin OriginOf(const SqlRow& row, std::size_t first) {
  return {
      .device = row.Text(first),
      .driver = row.Text(first + 1),
      .measured_ms = row.Int(first + 2),
      .clocks = {row.Int(first + 3), row.Int(first + 4), row.Text(first + 5)}};
}

// All columns of measurements.
SqlRows NoMeasurements() {
  return SqlRows(
      "kind TEXT, problem TEXT, batch BIGINT, algorithm TEXT, math TEXT, "
      "precision_name TEXT, workspace_bytes BIGINT, " +
      NumberColumns("{} BIGINT") +
      ", device TEXT, driver TEXT, measured_ms BIGINT, sm_clock_mhz BIGINT, "
      "memory_clock_mhz BIGINT, throttle TEXT");
}

std::string InsertStatement() {
  return fmt::format("INSERT INTO measurements ({}) $values",
                     NoMeasurements().Names());
}

std::string UpsertStatement() {
  return fmt::format(
      "{} ON CONFLICT (kind, problem, batch, algorithm, math, precision_name, "
      "workspace_bytes) DO UPDATE SET {}, device = excluded.device, "
      "driver = excluded.driver, measured_ms = excluded.measured_ms, "
      "sm_clock_mhz = excluded.sm_clock_mhz, "
      "memory_clock_mhz = excluded.memory_clock_mhz, "
      "throttle = excluded.throttle",
      InsertStatement(), NumberColumns("{0} = excluded.{0}"));
}

void AddRow(const Measurement& m, SqlRows* rows) {
  const MeasuredPoint& p = m.point;
  const PointOrigin& o = m.origin;
  std::vector<SqlRows::Cell> cells = {m.kind,
                                      m.problem,
                                      p.batch.count(),
                                      p.algorithm.name,
                                      p.algorithm.math,
                                      Name(p.algorithm.precision),
                                      p.workspace.count()};
  for (const PointNumber& number : PointNumbers()) {
    cells.emplace_back(number.get(p));
  }
  cells.insert(cells.end(), {o.device, o.driver, o.measured_ms, o.clocks.sm_mhz,
                             o.clocks.memory_mhz, o.clocks.throttle});
  rows->Add(cells);
}

// Kinds, problems and batches of which points are stored.
using MeasuredBatches =
    std::set<std::tuple<std::string, std::string, std::int64_t>>;

auto BatchKey(const Measurement& m) {
  return std::make_tuple(m.kind, m.problem, m.point.batch.count());
}

// Those of the batches, which are sorted, that have points.
Result<MeasuredBatches> FindMeasured(
    SqlTransaction& sql, std::span<const Measurement* const> measurements) {
  SqlRows rows("kind TEXT, problem TEXT, batch BIGINT");
  const Measurement* last = nullptr;
  for (const Measurement* m : measurements) {
    if (last == nullptr || BatchKey(*last) != BatchKey(*m)) {
      rows.Add({m->kind, m->problem, m->point.batch.count()});
    }
    last = m;
  }
  // A join might be planned as a scan of all measurements.
  UCUDNN_ASSIGN_OR_RETURN(
      const auto found,
      sql.Query("SELECT kind, problem, batch FROM $rows WHERE (SELECT 1 FROM "
                "measurements AS m WHERE m.kind = rows.kind AND m.problem = "
                "rows.problem AND m.batch = rows.batch LIMIT 1) IS NOT NULL",
                rows));
  MeasuredBatches measured;
  for (const SqlRow& row : found) {
    measured.emplace(row.Text(0), row.Text(1), row.Int(2));
  }
  return measured;
}

// Counts that the points of these kinds changed. Triggers count all else that
// plans are made from; for each point, they would cost as much as storing it.
Status CountChanges(SqlTransaction& sql,
                    const std::set<std::string_view>& kinds) {
  SqlRows rows("name TEXT");
  for (const std::string_view kind : kinds) rows.Add({kind});
  return sql.Execute(
      fmt::format("INSERT INTO changes (what, name, n) "
                  "SELECT 'kind', name, 1 FROM $rows WHERE true{}",
                  sql.dialect().adds_counts
                      ? ""
                      : " ON CONFLICT (what, name) DO UPDATE SET n = n + 1"),
      rows);
}

}  // namespace

Status CheckMeasurement(const Measurement& m) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("a measurement's kind", m.kind));
  UCUDNN_RETURN_IF_ERROR(CheckKey("a measurement's problem", m.problem));
  UCUDNN_RETURN_IF_ERROR(
      CheckKey("a measurement's algorithm", m.point.algorithm.name));
  if (const Status valid = CheckPoint(m.point); !valid) {
    return Within("a measurement's point", valid.error());
  }
  if (m.point.algorithm.math.empty()) return {};
  return CheckKey("a measurement's math mode", m.point.algorithm.math);
}

Status UpsertMeasurements(SqlTransaction& sql,
                          std::span<const Measurement> measurements) {
  for (const Measurement& m : measurements) {
    UCUDNN_RETURN_IF_ERROR(CheckMeasurement(m));
  }
  static const std::string kInsert = InsertStatement();
  static const std::string kUpsert = UpsertStatement();
  const std::vector<const Measurement*> newest = Newest(measurements);
  const bool find_new = sql.dialect().dear_upserts;
  MeasuredBatches measured;
  if (find_new) {
    UCUDNN_ASSIGN_OR_RETURN(measured, FindMeasured(sql, newest));
  }
  SqlRows inserts = NoMeasurements();
  SqlRows upserts = NoMeasurements();
  std::set<std::string_view> kinds;
  for (const Measurement* m : newest) {
    const bool is_new = find_new && !measured.contains(BatchKey(*m));
    AddRow(*m, is_new ? &inserts : &upserts);
    kinds.insert(m->kind);
  }
  // If another transaction adds the same points meanwhile, this one fails and
  // runs again.
  UCUDNN_RETURN_IF_ERROR(sql.Execute(kInsert, inserts));
  UCUDNN_RETURN_IF_ERROR(sql.Execute(kUpsert, upserts));
  return CountChanges(sql, kinds);
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
    SqlRows rows(
        "kind TEXT, problem TEXT, batch BIGINT, max_workspace_bytes BIGINT, "
        "driver TEXT");
    for (const CompleteBatch& b : sorted) {
      rows.Add({b.kind, b.problem, b.batch.count(), b.max_workspace.count(),
                b.driver});
    }
    return sql.Execute(
        fmt::format(
            "INSERT INTO tasks ({0}, goal, priority, state, attempts, "
            "failures, lease_token, agent, device, lease_until_ms, error, "
            "created_ms, finished_ms) SELECT {0}, '', 0, 'done', 0, 0, 0, '', "
            "'', 0, '', CAST($1 AS BIGINT), CAST($1 AS BIGINT) FROM $rows "
            "WHERE true ON CONFLICT (kind, problem, batch, goal) DO UPDATE SET "
            "state = 'done', error = '', driver = excluded.driver, "
            "finished_ms = excluded.finished_ms "
            "WHERE tasks.state IN ('pending', 'failed') AND "
            "tasks.max_workspace_bytes <= excluded.max_workspace_bytes",
            rows.Names()),
        rows, {now_ms});
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
    const std::string& kind, const std::string& after,
    std::int64_t max_points) {
  UCUDNN_RETURN_IF_ERROR(CheckLimit(max_points));
  return InTransaction(
      *database_, Access::kRead,
      [&](SqlTransaction& sql) -> Result<std::vector<Measurement>> {
        // One more than fits shows whether the last problem is cut.
        UCUDNN_ASSIGN_OR_RETURN(
            const auto problems,
            sql.Query("SELECT problem, COUNT(*) FROM (SELECT problem FROM "
                      "measurements WHERE kind = $1 AND problem > $2 "
                      "ORDER BY problem LIMIT $3) AS counted "
                      "GROUP BY problem ORDER BY problem",
                      {kind, after, max_points + 1}));
        if (problems.empty()) return std::vector<Measurement>();
        std::int64_t points = 0;
        for (const SqlRow& row : problems) points += row.Int(1);
        const bool cut = points > max_points && problems.size() > 1;
        const std::string& last =
            problems.at(problems.size() - (cut ? 2 : 1)).Text(0);
        UCUDNN_ASSIGN_OR_RETURN(
            std::vector<Measurement> measurements,
            Records(sql.Query(
                        fmt::format("SELECT problem, {}, {} FROM measurements "
                                    "WHERE kind = $1 AND problem > $2 AND "
                                    "problem <= $3",
                                    PointColumns(), kOriginColumns),
                        {kind, after, last}),
                    [&](const SqlRow& row) -> Result<Measurement> {
                      std::size_t column = 1;
                      UCUDNN_ASSIGN_OR_RETURN(MeasuredPoint point,
                                              PointOf(row, &column));
                      return Measurement{.kind = kind,
                                         .problem = row.Text(0),
                                         .point = std::move(point),
                                         .origin = OriginOf(row, column)};
                    }));
        std::ranges::sort(measurements, {}, PointKey);
        return measurements;
      });
}

Result<PointsByProblem> SqlStore::LoadProfile(
    const std::string& kind, std::span<const std::string> problems,
    std::span<const BatchSize> batches, std::span<const std::string> drivers) {
  std::vector<SqlValue> parameters = {kind};
  std::string conditions = "kind = $1";
  if (!drivers.empty()) {
    conditions +=
        fmt::format(" AND driver IN ('', {})", AddTexts(drivers, &parameters));
  }
  if (!batches.empty()) {
    std::vector<std::int64_t> counts;
    for (const BatchSize batch : batches) counts.push_back(batch.count());
    conditions += fmt::format(" AND batch IN ({})", fmt::join(counts, ", "));
  }
  SqlRows named("problem TEXT");
  for (const std::string& problem : problems) named.Add({problem});
  const std::string select =
      fmt::format("SELECT problem, {} FROM measurements WHERE {}",
                  PointColumns(), conditions);
  UCUDNN_ASSIGN_OR_RETURN(
      const auto found,
      InTransaction(*database_, Access::kRead, [&](SqlTransaction& sql) {
        if (problems.empty()) return sql.Query(select, parameters);
        return sql.Query(
            select + " AND problem IN (SELECT rows.problem FROM $rows)", named,
            parameters);
      }));
  PointsByProblem points;
  for (const SqlRow& row : found) {
    std::size_t column = 1;
    UCUDNN_ASSIGN_OR_RETURN(MeasuredPoint point, PointOf(row, &column));
    points[row.Text(0)].push_back(std::move(point));
  }
  for (auto& [problem, of_problem] : points) {
    std::ranges::sort(of_problem, {}, [](const MeasuredPoint& p) {
      return std::tie(p.batch, p.algorithm, p.workspace);
    });
    // A problem that was named twice may have been loaded twice.
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
