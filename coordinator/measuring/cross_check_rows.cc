// Cross-checks, and what devices measured of them.

#include "coordinator/measuring/measurement_store.h"
#include "coordinator/measuring/point_rows.h"

namespace ucudnn {
namespace {

Result<CrossCheck> CrossCheckOf(const SqlRow& row) {
  CrossCheck check;
  check.id = row.Int(0);
  check.kind = row.Text(1);
  check.problem = row.Text(2);
  check.batch = BatchSize(row.Int(3));
  check.algorithm.name = row.Text(4);
  check.algorithm.math = row.Text(5);
  UCUDNN_ASSIGN_OR_RETURN(check.algorithm.precision,
                          ParsePrecision(row.Text(6)));
  check.workspace = Bytes(row.Int(7));
  return check;
}

Result<std::vector<CrossCheck>> CrossChecksOf(SqlTransaction& sql,
                                              const std::string& kind) {
  return Records(sql.Query("SELECT id, kind, problem, batch, algorithm, math, "
                           "precision_name, workspace_bytes FROM cross_checks "
                           "WHERE kind = $1 ORDER BY id",
                           {kind}),
                 CrossCheckOf);
}

CrossCheckMeasurement MeasurementOf(const SqlRow& row) {
  return {.check = row.Int(0),
          .device = row.Text(1),
          .round = row.Int(2),
          .driver = row.Text(3),
          .time = Nanoseconds(row.Int(4)),
          .spread = Nanoseconds(row.Int(5)),
          .throttle = row.Text(6),
          .measured_ms = row.Int(7),
          .sequence = row.Int(8)};
}

Status PutMeasurement(SqlTransaction& sql, const CrossCheckMeasurement& m) {
  return sql.Execute(
      "INSERT INTO cross_check_measurements (cross_check, device, round, "
      "driver, time_ns, spread_ns, throttle, measured_ms, sequence) "
      "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, "
      "(SELECT COALESCE(MAX(sequence), 0) + 1 "
      "FROM cross_check_measurements)) "
      "ON CONFLICT (cross_check, device, round) DO UPDATE SET "
      "driver = excluded.driver, time_ns = excluded.time_ns, "
      "spread_ns = excluded.spread_ns, throttle = excluded.throttle, "
      "measured_ms = excluded.measured_ms, sequence = excluded.sequence",
      {m.check, m.device, m.round, m.driver, std::int64_t{m.time.count()},
       std::int64_t{m.spread.count()}, m.throttle, m.measured_ms});
}

}  // namespace

Status AddCrossCheck(SqlTransaction& sql, const TaskCompletion& completion) {
  const CrossCheck& c = *completion.cross_check;
  UCUDNN_RETURN_IF_ERROR(CheckKey("a cross-check's kind", c.kind));
  UCUDNN_RETURN_IF_ERROR(CheckKey("a cross-check's problem", c.problem));
  UCUDNN_RETURN_IF_ERROR(
      CheckKey("a cross-check's algorithm", c.algorithm.name));
  UCUDNN_ASSIGN_OR_RETURN(
      const auto added,
      sql.Query("INSERT INTO cross_checks (kind, problem, batch, algorithm, "
                "math, precision_name, workspace_bytes) "
                "VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (kind, "
                "problem, batch) DO NOTHING "
                "RETURNING id",
                {c.kind, c.problem, c.batch.count(), c.algorithm.name,
                 c.algorithm.math, std::string(Name(c.algorithm.precision)),
                 c.workspace.count()}));
  if (added.empty()) return {};
  for (const MeasuredPoint& point : completion.points) {
    if (c.batch != point.batch || c.algorithm != point.algorithm ||
        c.workspace != point.workspace) {
      continue;
    }
    return PutMeasurement(sql, {.check = added[0].Int(0),
                                .device = completion.origin.device,
                                .round = 1,
                                .driver = completion.origin.driver,
                                .time = point.time,
                                .spread = point.spread,
                                .throttle = completion.origin.clocks.throttle,
                                .measured_ms = completion.origin.measured_ms});
  }
  return {};
}

Status MeasurementStore::PutCrossCheckMeasurement(
    const CrossCheckMeasurement& m, const ReportIdentity& identity) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the device's id", m.device));
  return database_.Write([&](SqlTransaction& sql) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto known,
        sql.Query("SELECT kind, problem FROM cross_checks WHERE id = $1",
                  {m.check}));
    if (known.empty()) {
      return Fail(Code::kNotFound, "there is no cross-check {}", m.check);
    }
    UCUDNN_ASSIGN_OR_RETURN(const std::string epoch, ReadEpoch(sql));
    UCUDNN_RETURN_IF_ERROR(
        CheckIdentity(identity, epoch, known[0].Text(0), known[0].Text(1),
                      fmt::format("cross-check {}", m.check)));
    return PutMeasurement(sql, m);
  });
}

Result<KindCrossChecks> MeasurementStore::LoadCrossChecks(
    const std::string& kind) {
  return database_.Read([&](SqlTransaction& sql) -> Result<KindCrossChecks> {
    KindCrossChecks checks;
    UCUDNN_ASSIGN_OR_RETURN(checks.points, CrossChecksOf(sql, kind));
    if (checks.points.empty()) return checks;
    UCUDNN_ASSIGN_OR_RETURN(
        const auto rows,
        sql.Query("SELECT m.cross_check, m.device, m.round, m.driver, "
                  "m.time_ns, m.spread_ns, m.throttle, m.measured_ms, "
                  "m.sequence "
                  "FROM cross_check_measurements m "
                  "JOIN cross_checks c ON c.id = m.cross_check "
                  "WHERE c.kind = $1 "
                  "ORDER BY m.cross_check, m.device, m.round",
                  {kind}));
    for (const SqlRow& row : rows) {
      checks.measurements.push_back(MeasurementOf(row));
    }
    return checks;
  });
}

}  // namespace ucudnn
