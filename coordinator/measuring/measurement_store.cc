#include "coordinator/measuring/measurement_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <set>
#include <tuple>

#include "coordinator/measuring/measured_batch.h"
#include "coordinator/measuring/point_rows.h"

namespace ucudnn {
namespace {

// Which row of measured_batches a point belongs to.
struct Located {
  std::string_view kind;
  std::string_view problem;
  std::int64_t batch;
  PointRef point;
};

auto BatchKey(const Located& located) {
  return std::tie(located.kind, located.problem, located.batch);
}

// Points of one batch.
using LocatedBatch = std::span<const Located>;

// The points by batch. Writers that lock rows in the same order do not
// deadlock.
std::vector<Located> Locate(std::span<const MeasuredPoints> measured) {
  std::vector<Located> located;
  for (const MeasuredPoints& m : measured) {
    for (const MeasuredPoint& point : m.points) {
      located.push_back(
          {m.kind, m.problem, point.batch.count(), {&point, &m.origin}});
    }
  }
  std::ranges::stable_sort(located, {}, BatchKey);
  return located;
}

std::vector<LocatedBatch> Split(std::span<const Located> located) {
  std::vector<LocatedBatch> batches;
  while (!located.empty()) {
    const auto end = std::ranges::find_if(located, [&](const Located& other) {
      return BatchKey(other) != BatchKey(located.front());
    });
    const auto size = static_cast<std::size_t>(end - located.begin());
    batches.push_back(located.first(size));
    located = located.subspan(size);
  }
  return batches;
}

// The points in this column of a row.
Result<std::vector<StoredPoints>> PointsOf(const SqlRow& row,
                                           std::size_t body) {
  return Unpack(row.Bytes(body)).map_error(Unreadable);
}

// What is stored of each of the batches, locked until the transaction ends.
Result<std::vector<std::vector<StoredPoints>>> FindStored(
    SqlTransaction& sql, std::span<const LocatedBatch> batches) {
  SqlRows rows("i BIGINT, kind TEXT, problem TEXT, batch BIGINT");
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const Located& first = batches[i].front();
    rows.Add(
        {static_cast<std::int64_t>(i), first.kind, first.problem, first.batch});
  }
  // A join might be planned as a scan of all batches.
  UCUDNN_ASSIGN_OR_RETURN(
      const auto found,
      sql.Query(
          fmt::format("SELECT i, (SELECT body FROM measured_batches AS m WHERE "
                      "m.kind = rows.kind AND m.problem = rows.problem AND "
                      "m.batch = rows.batch{}) FROM $rows",
                      sql.dialect().lock_rows),
          rows));
  std::vector<std::vector<StoredPoints>> stored(batches.size());
  for (const SqlRow& row : found) {
    if (row.IsNull(1)) continue;
    UCUDNN_ASSIGN_OR_RETURN(stored.at(static_cast<std::size_t>(row.Int(0))),
                            PointsOf(row, 1));
  }
  return stored;
}

// The points of a batch behind those that are stored of it.
std::vector<PointRef> Joined(std::span<const StoredPoints> stored,
                             LocatedBatch batch) {
  std::vector<PointRef> points;
  for (const StoredPoints& of_origin : stored) {
    for (const MeasuredPoint& point : of_origin.points) {
      points.push_back({&point, &of_origin.origin});
    }
  }
  for (const Located& located : batch) points.push_back(located.point);
  return points;
}

constexpr char kBatchColumns[] =
    "kind TEXT, problem TEXT, batch BIGINT, points BIGINT, drivers BIGINT, "
    "driver TEXT, measured_ms BIGINT, body BYTEA";

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

// The last problem whose batches, rows of (problem, points), all fit into so
// many points; the first one if none does.
std::string LastWhole(std::span<const SqlRow> batches,
                      std::int64_t max_points) {
  std::string whole = batches.front().Text(0);
  std::int64_t points = 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    points += batches[i].Int(1);
    if (points > max_points) return whole;
    const bool ends =
        i + 1 == batches.size() || batches[i + 1].Text(0) != batches[i].Text(0);
    if (ends) whole = batches[i].Text(0);
  }
  return whole;
}

// Sets points_by_driver of each profile, which are sorted by kind.
Status CountByDriver(SqlTransaction& sql,
                     std::vector<ProfileSummary>* profiles) {
  const auto of_kind = [&](const SqlRow& row) -> auto& {
    return std::ranges::lower_bound(*profiles, row.Text(0), {},
                                    &ProfileSummary::kind)
        ->points_by_driver;
  };
  UCUDNN_ASSIGN_OR_RETURN(
      const auto counts,
      sql.Query("SELECT kind, driver, CAST(SUM(points) AS BIGINT) FROM "
                "measured_batches WHERE drivers = 1 GROUP BY kind, driver"));
  for (const SqlRow& row : counts) of_kind(row)[row.Text(1)] += row.Int(2);
  // Few batches have points of several drivers: those of which only a part was
  // measured again after a driver changed.
  UCUDNN_ASSIGN_OR_RETURN(
      const auto mixed,
      sql.Query("SELECT kind, body FROM measured_batches WHERE drivers > 1"));
  for (const SqlRow& row : mixed) {
    UCUDNN_ASSIGN_OR_RETURN(const auto stored, PointsOf(row, 1));
    for (const StoredPoints& of_origin : stored) {
      of_kind(row)[of_origin.origin.driver] += std::ssize(of_origin.points);
    }
  }
  return {};
}

}  // namespace

Status CheckPoints(const MeasuredPoints& measured) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("a measurement's kind", measured.kind));
  UCUDNN_RETURN_IF_ERROR(CheckKey("a measurement's problem", measured.problem));
  for (const std::string& text :
       {std::cref(measured.origin.device), std::cref(measured.origin.driver),
        std::cref(measured.origin.clocks.throttle)}) {
    UCUDNN_RETURN_IF_ERROR(CheckText(text));
  }
  for (const MeasuredPoint& point : measured.points) {
    UCUDNN_RETURN_IF_ERROR(
        CheckKey("a measurement's algorithm", point.algorithm.name));
    UCUDNN_RETURN_IF_ERROR(CheckText(point.algorithm.name));
    if (const Status valid = CheckPoint(point); !valid) {
      return Within("a measurement's point", valid.error());
    }
    if (point.algorithm.math.empty()) continue;
    UCUDNN_RETURN_IF_ERROR(
        CheckKey("a measurement's math mode", point.algorithm.math));
    UCUDNN_RETURN_IF_ERROR(CheckText(point.algorithm.math));
  }
  return {};
}

Status StorePoints(SqlTransaction& sql,
                   std::span<const MeasuredPoints> measured) {
  const std::vector<Located> located = Locate(measured);
  const std::vector<LocatedBatch> batches = Split(located);
  UCUDNN_ASSIGN_OR_RETURN(const auto stored, FindStored(sql, batches));
  SqlRows inserts(kBatchColumns);
  SqlRows updates(kBatchColumns);
  std::deque<PackedBatch> packed;
  std::set<std::string_view> kinds;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const Located& first = batches[i].front();
    const PackedBatch& row =
        packed.emplace_back(Pack(Joined(stored[i], batches[i])));
    (stored[i].empty() ? inserts : updates)
        .Add({first.kind, first.problem, first.batch, row.points, row.drivers,
              row.driver, row.measured_ms, row.body});
    kinds.insert(first.kind);
  }
  // If another transaction adds the same batch meanwhile, this one fails and
  // runs again.
  const std::string insert =
      fmt::format("INSERT INTO measured_batches ({}) $values", inserts.Names());
  UCUDNN_RETURN_IF_ERROR(sql.Execute(insert, inserts));
  UCUDNN_RETURN_IF_ERROR(sql.Execute(
      insert + " ON CONFLICT (kind, problem, batch) DO UPDATE SET "
               "points = excluded.points, drivers = excluded.drivers, "
               "driver = excluded.driver, "
               "measured_ms = excluded.measured_ms, body = excluded.body",
      updates));
  return CountChanges(sql, kinds);
}

namespace {

Status StoreMeasurements(SqlTransaction& sql,
                         std::span<const Measurement> measurements) {
  std::vector<MeasuredPoints> measured;
  measured.reserve(measurements.size());
  for (const Measurement& m : measurements) {
    measured.push_back({m.kind, m.problem, {&m.point, 1}, m.origin});
    UCUDNN_RETURN_IF_ERROR(CheckPoints(measured.back()));
  }
  return StorePoints(sql, measured);
}

}  // namespace

Status MeasurementStore::PutMeasurements(
    std::span<const Measurement> measurements) {
  return database_.Write([&](SqlTransaction& sql) {
    return StoreMeasurements(sql, measurements);
  });
}

Status MeasurementStore::ImportProfile(
    std::span<const Measurement> measurements,
    std::span<const CompleteBatch> batches, UnixMillis now_ms) {
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
  return database_.Write([&](SqlTransaction& sql) -> Status {
    UCUDNN_RETURN_IF_ERROR(StoreMeasurements(sql, measurements));
    SqlRows rows(
        "kind TEXT, problem TEXT, batch BIGINT, max_workspace_bytes "
        "BIGINT, "
        "driver TEXT");
    for (const CompleteBatch& b : sorted) {
      rows.Add({b.kind, b.problem, b.batch.count(), b.max_workspace.count(),
                b.driver});
    }
    return sql.Execute(
        fmt::format(
            "INSERT INTO tasks ({0}, goal, priority, state, attempts, "
            "failures, lease_token, agent, device, lease_until_ms, error, "
            "created_ms, finished_ms) SELECT {0}, '', 0, 'done', 0, 0, 0, "
            "'', "
            "'', 0, '', CAST($1 AS BIGINT), CAST($1 AS BIGINT) FROM $rows "
            "WHERE true ON CONFLICT (kind, problem, batch, goal) DO UPDATE "
            "SET "
            "state = 'done', error = '', driver = excluded.driver, "
            "finished_ms = excluded.finished_ms "
            "WHERE tasks.state IN ('pending', 'failed') AND "
            "tasks.max_workspace_bytes <= excluded.max_workspace_bytes",
            rows.Names()),
        rows, {now_ms});
  });
}

Result<std::vector<CompleteBatch>> MeasurementStore::ListCompleteBatches(
    const std::string& kind, const std::string& problem) {
  std::string of_problem;
  std::vector<SqlValue> parameters = {kind};
  if (!problem.empty()) {
    of_problem = "AND problem = $2 ";
    parameters.emplace_back(problem);
  }
  return database_.Read([&](SqlTransaction& sql) {
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

Result<std::vector<Measurement>> MeasurementStore::LoadMeasurements(
    const std::string& kind, const std::string& after,
    std::int64_t max_points) {
  UCUDNN_RETURN_IF_ERROR(CheckLimit(max_points));
  UCUDNN_ASSIGN_OR_RETURN(
      const auto rows,
      database_.Read([&](SqlTransaction& sql) -> Result<std::vector<SqlRow>> {
        // One more than fits shows whether the last problem is cut: each
        // batch has a point at least.
        UCUDNN_ASSIGN_OR_RETURN(
            const auto batches,
            sql.Query("SELECT problem, points FROM measured_batches WHERE "
                      "kind = $1 AND problem > $2 ORDER BY problem LIMIT "
                      "$3",
                      {kind, after, max_points + 1}));
        if (batches.empty()) return batches;
        return sql.Query(
            "SELECT problem, body FROM measured_batches WHERE kind = $1 "
            "AND problem > $2 AND problem <= $3",
            {kind, after, LastWhole(batches, max_points)});
      }));
  std::vector<Measurement> measurements;
  for (const SqlRow& row : rows) {
    UCUDNN_ASSIGN_OR_RETURN(auto stored, PointsOf(row, 1));
    for (StoredPoints& of_origin : stored) {
      for (MeasuredPoint& point : of_origin.points) {
        measurements.push_back({.kind = kind,
                                .problem = row.Text(0),
                                .point = std::move(point),
                                .origin = of_origin.origin});
      }
    }
  }
  std::ranges::sort(measurements, {}, [](const Measurement& m) {
    return std::tie(m.problem, m.point.batch, m.point.algorithm,
                    m.point.workspace);
  });
  return measurements;
}

Result<PointsByProblem> MeasurementStore::LoadProfile(
    const std::string& kind, std::span<const std::string> problems,
    std::span<const std::string> drivers) {
  const std::string select =
      "SELECT problem, body FROM measured_batches WHERE kind = $1";
  SqlRows named("problem TEXT");
  for (const std::string& problem : problems) named.Add({problem});
  UCUDNN_ASSIGN_OR_RETURN(
      const auto found, database_.Read([&](SqlTransaction& sql) {
        if (problems.empty()) return sql.Query(select, {kind});
        return sql.Query(
            select + " AND problem IN (SELECT rows.problem FROM $rows)", named,
            {kind});
      }));
  PointsByProblem points;
  for (const SqlRow& row : found) {
    UCUDNN_ASSIGN_OR_RETURN(auto stored, PointsOf(row, 1));
    for (StoredPoints& of_origin : stored) {
      const std::string& driver = of_origin.origin.driver;
      if (!drivers.empty() && !driver.empty() &&
          std::ranges::find(drivers, driver) == drivers.end()) {
        continue;
      }
      std::ranges::move(of_origin.points,
                        std::back_inserter(points[row.Text(0)]));
    }
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

Result<std::vector<ProfileSummary>> MeasurementStore::ListProfiles() {
  using Summaries = std::vector<ProfileSummary>;
  return database_.Read([](SqlTransaction& sql) -> Result<Summaries> {
    UCUDNN_ASSIGN_OR_RETURN(
        Summaries profiles,
        Records(sql.Query("SELECT kind, COUNT(DISTINCT problem), "
                          "CAST(SUM(points) AS BIGINT), MAX(measured_ms) "
                          "FROM measured_batches GROUP BY kind "
                          "ORDER BY kind"),
                [](const SqlRow& row) -> Result<ProfileSummary> {
                  ProfileSummary summary;
                  summary.kind = row.Text(0);
                  summary.problems = row.Int(1);
                  summary.points = row.Int(2);
                  summary.last_measured_ms = row.Int(3);
                  return summary;
                }));
    UCUDNN_RETURN_IF_ERROR(CountByDriver(sql, &profiles));
    return profiles;
  });
}

Status MeasurementStore::PutDeviceModel(const DeviceModelRecord& record) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the device model's kind", record.kind));
  if (!record.driver.empty()) {
    UCUDNN_RETURN_IF_ERROR(
        CheckKey("the device model's driver", record.driver));
  }
  return database_.Write([&](SqlTransaction& sql) -> Status {
    return sql.Execute(
        "INSERT INTO device_models "
        "(kind, driver, device, measured_ms, model, sequence) "
        "VALUES ($1, $2, $3, $4, $5, "
        "(SELECT COALESCE(MAX(sequence), 0) + 1 FROM device_models)) "
        "ON CONFLICT (kind, driver) DO UPDATE SET device = "
        "excluded.device, "
        "measured_ms = excluded.measured_ms, model = excluded.model, "
        "sequence = excluded.sequence",
        {record.kind, record.driver, record.device, record.measured_ms,
         SqlBytes{record.model}});
  });
}

Result<std::vector<DeviceModelRecord>> MeasurementStore::ListDeviceModels(
    const std::string& kind) {
  return database_.Read([&](SqlTransaction& sql) {
    return Records(
        sql.Query("SELECT kind, driver, device, measured_ms, model FROM "
                  "device_models WHERE kind = $1 "
                  "ORDER BY sequence DESC",
                  {kind}),
        [](const SqlRow& row) -> Result<DeviceModelRecord> {
          return DeviceModelRecord{.kind = row.Text(0),
                                   .driver = row.Text(1),
                                   .device = row.Text(2),
                                   .measured_ms = row.Int(3),
                                   .model = row.Bytes(4)};
        });
  });
}

}  // namespace ucudnn
