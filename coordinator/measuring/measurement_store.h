#ifndef UCUDNN_COORDINATOR_MEASURING_MEASUREMENT_STORE_H_
#define UCUDNN_COORDINATOR_MEASURING_MEASUREMENT_STORE_H_

// What was measured on each kind of device, its device model, and the
// cross-checks that compare the devices of one kind. stores.h states what holds
// for every call.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/measured_point.h"
#include "base/result.h"
#include "base/units.h"
#include "coordinator/planning/cross_checks.h"
#include "coordinator/store/unix_millis.h"

namespace ucudnn {

class SqlDatabase;

// What a report says about the task or cross-check that it is of. An id alone
// means something else in another database, and in one that was restored.
// Empty texts are not checked.
struct ReportIdentity {
  std::string epoch = {};  // Store::Epoch
  std::string kind = {};
  std::string problem = {};
};

// One point of a kind's profile of one problem, and its origin. Unique by kind,
// problem, batch, algorithm and workspace.
struct Measurement {
  std::string kind;
  std::string problem;
  MeasuredPoint point;
  PointOrigin origin;

  friend bool operator==(const Measurement&, const Measurement&) = default;
};

// Each problem's points, sorted by batch, algorithm and workspace.
using PointsByProblem = std::map<std::string, std::vector<MeasuredPoint>>;

// States that every algorithm within `max_workspace` was measured for a problem
// and batch; see TaskKey (task_store.h).
struct CompleteBatch {
  std::string kind;
  std::string problem;
  BatchSize batch;
  Bytes max_workspace;
  std::string driver;

  friend bool operator==(const CompleteBatch&, const CompleteBatch&) = default;
};

struct ProfileSummary {
  std::string kind;
  std::int64_t problems = 0;
  std::int64_t points = 0;
  UnixMillis last_measured_ms = 0;
  std::map<std::string, std::int64_t> points_by_driver;

  friend bool operator==(const ProfileSummary&,
                         const ProfileSummary&) = default;
};

// The device model of a kind, measured under one driver. Unique by these two.
struct DeviceModelRecord {
  std::string kind;
  std::string driver;  // at most as long as a key; may be empty
  std::string device;
  UnixMillis measured_ms = 0;
  std::string model;  // opaque to the store

  friend bool operator==(const DeviceModelRecord&,
                         const DeviceModelRecord&) = default;
};

class MeasurementStore {
 public:
  explicit MeasurementStore(SqlDatabase& database) : database_(database) {}

  // All or nothing. Of two measurements of one point, the one that the database
  // took in last is kept, whatever their clocks say; of two in one list, the
  // later in the list.
  Status PutMeasurements(std::span<const Measurement> measurements);
  // PutMeasurements, and in the same transaction marks as done the tasks that
  // would measure these batches, unless they are done or leased.
  Status ImportProfile(std::span<const Measurement> measurements,
                       std::span<const CompleteBatch> batches,
                       UnixMillis now_ms);
  // The kind's points of `problems` and `drivers`; an empty list stands for
  // all. Points without a driver (imported ones) match every driver;
  // problems without points are absent.
  Result<PointsByProblem> LoadProfile(
      const std::string& kind, std::span<const std::string> problems,
      std::span<const std::string> drivers = {});
  // A kind's profile with the points' origins, sorted by problem, batch,
  // algorithm and workspace: all points of the problems after `after`, of at
  // least one and no more than `max_points` if there are several.
  Result<std::vector<Measurement>> LoadMeasurements(
      const std::string& kind, const std::string& after = {},
      std::int64_t max_points = kMaxCount);
  // The kind's completely measured batches, sorted by problem and batch; of one
  // problem only, unless `problem` is empty.
  Result<std::vector<CompleteBatch>> ListCompleteBatches(
      const std::string& kind, const std::string& problem = {});
  // Sorted by kind.
  Result<std::vector<ProfileSummary>> ListProfiles();

  // Of two models of one kind and driver, the one taken in last is kept.
  Status PutDeviceModel(const DeviceModelRecord& record);
  // The kind's models under each driver, the one taken in last first.
  Result<std::vector<DeviceModelRecord>> ListDeviceModels(
      const std::string& kind);

  // Keeps the latest measurement of each cross-check, device and round.
  // kNotFound: there is no such cross-check; kFailedPrecondition: it is another
  // than the report says. TaskStore::CompleteTask adds them.
  Status PutCrossCheckMeasurement(const CrossCheckMeasurement& measurement,
                                  const ReportIdentity& identity = {});
  Result<KindCrossChecks> LoadCrossChecks(const std::string& kind);

 private:
  SqlDatabase& database_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_MEASURING_MEASUREMENT_STORE_H_
