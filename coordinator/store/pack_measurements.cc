#include "coordinator/store/pack_measurements.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/measured_point.h"
#include "coordinator/store/sql_store.h"

namespace ucudnn {
namespace {

// The numbers that points had in this version.
constexpr std::array<std::string_view, 7> kNumbers = {
    "time_ns", "spread_ns",  "repeats", "min_ns",
    "p90_ns",  "enqueue_ns", "outliers"};

Result<MeasuredPoint> PointOf(const SqlRow& row, std::size_t first) {
  UCUDNN_ASSIGN_OR_RETURN(
      MeasuredPoint point,
      MakePoint(row.Int(0), row.Text(1), row.Text(2), row.Text(3), row.Int(4)));
  for (std::size_t i = 0; i < kNumbers.size(); ++i) {
    const auto number =
        std::ranges::find(PointNumbers(), kNumbers.at(i), &PointNumber::name);
    UCUDNN_CHECK(number != PointNumbers().end());
    UCUDNN_RETURN_IF_ERROR(SetNumber(*number, row.Int(first + i), &point));
  }
  return point;
}

Status PackProblem(SqlTransaction& sql, const std::string& kind,
                   const std::string& problem) {
  constexpr std::size_t kFirstOfOrigin = 5;
  constexpr std::size_t kFirstNumber = kFirstOfOrigin + 6;
  const auto rows = sql.Query(
      fmt::format(
          "SELECT batch, algorithm, math, precision_name, workspace_bytes, "
          "device, driver, measured_ms, sm_clock_mhz, memory_clock_mhz, "
          "throttle, {} FROM measurements WHERE kind = $1 AND problem = $2",
          fmt::join(kNumbers, ", ")),
      {kind, problem});
  UCUDNN_ASSIGN_OR_RETURN(
      const std::vector<Measurement> measurements,
      Records(rows, [&](const SqlRow& row) -> Result<Measurement> {
        UCUDNN_ASSIGN_OR_RETURN(MeasuredPoint point,
                                PointOf(row, kFirstNumber));
        return Measurement{
            .kind = kind,
            .problem = problem,
            .point = std::move(point),
            .origin = {.device = row.Text(kFirstOfOrigin),
                       .driver = row.Text(kFirstOfOrigin + 1),
                       .measured_ms = row.Int(kFirstOfOrigin + 2),
                       .clocks = {row.Int(kFirstOfOrigin + 3),
                                  row.Int(kFirstOfOrigin + 4),
                                  row.Text(kFirstOfOrigin + 5)}}};
      }));
  return StoreMeasurements(sql, measurements);
}

}  // namespace

Status PackMeasurements(SqlTransaction& sql) {
  UCUDNN_ASSIGN_OR_RETURN(
      const auto problems,
      sql.Query("SELECT DISTINCT kind, problem FROM measurements"));
  for (const SqlRow& row : problems) {
    UCUDNN_RETURN_IF_ERROR(PackProblem(sql, row.Text(0), row.Text(1)));
  }
  return sql.ExecuteScript("DROP TABLE measurements");
}

}  // namespace ucudnn
