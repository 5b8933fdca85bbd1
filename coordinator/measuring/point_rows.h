#ifndef UCUDNN_COORDINATOR_MEASURING_POINT_ROWS_H_
#define UCUDNN_COORDINATOR_MEASURING_POINT_ROWS_H_

// Points and cross-checks that tasks report, within transactions.

#include <span>
#include <string>
#include <string_view>

#include "coordinator/measuring/task_store.h"
#include "coordinator/store/records.h"

namespace ucudnn {

// Points of a kind's problem, in memory.
struct MeasuredPoints {
  std::string_view kind;
  std::string_view problem;
  std::span<const MeasuredPoint> points;
  const PointOrigin& origin;
};

// kInvalidArgument if the store takes no such points.
Status CheckPoints(const MeasuredPoints& measured);
// MeasurementStore::PutMeasurements within a transaction, for checked points.
Status StorePoints(SqlTransaction& sql,
                   std::span<const MeasuredPoints> measured);
// Adds completion.cross_check and the device's measurement of it; see
// TaskStore::CompleteTask.
Status AddCrossCheck(SqlTransaction& sql, const TaskCompletion& completion);

// kFailedPrecondition if a report is of something else than the task or
// cross-check `what`, which is of this kind and problem in the database of this
// epoch.
Status CheckIdentity(const ReportIdentity& identity, const std::string& epoch,
                     const std::string& kind, const std::string& problem,
                     std::string_view what);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_MEASURING_POINT_ROWS_H_
