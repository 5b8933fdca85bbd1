// Profiles: what was measured on each kind of device.

#include <algorithm>
#include <optional>
#include <utility>

#include "base/device_kind.h"
#include "base/other_tasks.h"
#include "coordinator/limits.h"
#include "coordinator/measuring/device_models.h"
#include "coordinator/measuring/measuring_service.h"
#include "coordinator/page.h"
#include "proto/convert.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

// Whether a measurement under `driver` is stale for devices with the `current`
// drivers. Without a driver on either side, it is not.
bool IsStale(const std::string& driver,
             const std::vector<std::string>& current) {
  return !driver.empty() && !current.empty() &&
         !std::ranges::binary_search(current, driver);
}

v1::CompleteBatch ToProto(const CompleteBatch& batch) {
  v1::CompleteBatch message;
  message.set_batch(batch.batch.count());
  message.set_max_workspace_bytes(batch.max_workspace.count());
  message.set_driver(batch.driver);
  return message;
}

}  // namespace

Result<v1::ListProfilesResponse> MeasuringService::ListProfiles(
    const v1::ListRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const auto profiles,
                          store_.measurements.ListProfiles());
  v1::ListProfilesResponse response;
  UCUDNN_ASSIGN_OR_RETURN(
      const auto page, PageOf(profiles, request,
                              [](const ProfileSummary& p) { return p.kind; }));
  for (const ProfileSummary& profile : page) {
    v1::ProfileSummary& p = *response.add_profiles();
    p.set_id(profile.kind);
    p.set_problems(profile.problems);
    p.set_points(profile.points);
    p.set_last_measured_ms(profile.last_measured_ms);
    UCUDNN_ASSIGN_OR_RETURN(const auto current,
                            store_.agents.ListDrivers(profile.kind));
    for (const auto& [driver, points] : profile.points_by_driver) {
      p.add_drivers(driver);
      if (IsStale(driver, current)) {
        p.set_stale_points(p.stale_points() + points);
      }
    }
  }
  return response;
}

Result<v1::Profile> MeasuringService::GetProfile(
    const v1::GetProfileRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const auto measurements,
                          store_.measurements.LoadMeasurements(
                              request.id(), request.after(), kMaxPagePoints));
  const bool is_first_page = request.after().empty();
  std::optional<MeasuredModel> model;
  if (is_first_page) {
    UCUDNN_ASSIGN_OR_RETURN(
        model, NewestDeviceModel(store_.measurements, request.id()));
  }
  if (is_first_page && measurements.empty() && !model) {
    return Fail(Code::kNotFound, "nothing was measured on kind '{}'",
                request.id());
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto drivers,
                          store_.agents.ListDrivers(request.id()));
  v1::Profile message;
  message.set_id(request.id());
  if (model) *message.mutable_device_model() = ucudnn::ToProto(*model);
  for (const Measurement& m : measurements) {
    if (message.problems_size() == 0 ||
        message.problems().rbegin()->problem() != m.problem) {
      v1::ProblemProfile& problem = *message.add_problems();
      problem.set_problem(m.problem);
      UCUDNN_ASSIGN_OR_RETURN(
          const auto complete,
          store_.measurements.ListCompleteBatches(request.id(), m.problem));
      for (const CompleteBatch& batch : complete) {
        *problem.add_complete() = ToProto(batch);
      }
    }
    v1::Measurement& measurement =
        *message.mutable_problems()->rbegin()->add_measurements();
    measurement = ucudnn::ToProto(m.point, m.origin);
    measurement.set_stale(IsStale(m.origin.driver, drivers));
  }
  return message;
}

Result<v1::ProblemProfile> MeasuringService::GetProblemProfile(
    const v1::GetProblemProfileRequest& request) {
  if (const auto kind = ParseDeviceKind(request.kind()); !kind) {
    return Within("kind", kind.error());
  }
  if (const auto problem = ParseConvProblem(request.problem()); !problem) {
    return Within("problem", problem.error());
  }
  const std::vector<std::string> problem = {request.problem()};
  UCUDNN_ASSIGN_OR_RETURN(const auto drivers,
                          store_.agents.ListDrivers(request.kind()));
  UCUDNN_ASSIGN_OR_RETURN(
      const PointsByProblem points,
      store_.measurements.LoadProfile(request.kind(), problem, drivers));
  UCUDNN_ASSIGN_OR_RETURN(const auto complete,
                          store_.measurements.ListCompleteBatches(
                              request.kind(), request.problem()));
  v1::ProblemProfile message;
  message.set_problem(request.problem());
  for (const auto& [name, of_problem] : points) {
    for (const MeasuredPoint& point : of_problem) {
      *message.add_measurements() = ucudnn::ToProto(point);
    }
  }
  for (const CompleteBatch& batch : complete) {
    if (!IsStale(batch.driver, drivers)) {
      *message.add_complete() = ToProto(batch);
    }
  }
  return message;
}

Result<v1::MeasuredDeviceModel> MeasuringService::GetDeviceModel(
    const v1::GetRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const auto model,
                          NewestDeviceModel(store_.measurements, request.id()));
  if (model) return ucudnn::ToProto(*model);
  return Fail(Code::kNotFound,
              "there is no device model of kind '{}': ucudnn-agent measures it "
              "on the first device of the kind",
              request.id());
}

Result<v1::ProfileSummary> MeasuringService::PutProfile(
    const v1::Profile& request) {
  if (const auto kind = ParseDeviceKind(request.id()); !kind) {
    return Within("id", kind.error());
  }
  std::vector<Measurement> measurements;
  std::vector<CompleteBatch> complete;
  for (const v1::ProblemProfile& profile : request.problems()) {
    if (const Status problem = CheckProblem(profile.problem()); !problem) {
      return Within("problem", problem.error());
    }
    for (const v1::Measurement& message : profile.measurements()) {
      Result<MeasuredPoint> point = FromProto(message);
      if (!point) {
        return Within(profile.problem(), std::move(point).error());
      }
      measurements.push_back({request.id(), profile.problem(),
                              *std::move(point), OriginOf(message)});
    }
    for (const v1::CompleteBatch& batch : profile.complete()) {
      if (batch.batch() < 1 || batch.batch() > kMaxBatchSize.count() ||
          batch.max_workspace_bytes() < 0) {
        return Fail(Code::kInvalidArgument,
                    "{}: a complete batch has {} images and a limit of {} "
                    "bytes; 1 to {} images and at least 0 bytes are accepted",
                    profile.problem(), batch.batch(),
                    batch.max_workspace_bytes(), kMaxBatchSize.count());
      }
      complete.push_back({request.id(), profile.problem(),
                          BatchSize(batch.batch()),
                          Bytes(batch.max_workspace_bytes()), batch.driver()});
    }
  }
  if (request.has_device_model()) {
    UCUDNN_ASSIGN_OR_RETURN(MeasuredModel model,
                            FromProto(request.device_model()));
    UCUDNN_RETURN_IF_ERROR(
        PutDeviceModel(store_.measurements, request.id(), std::move(model)));
  }
  UCUDNN_RETURN_IF_ERROR(store_.measurements.ImportProfile(
      measurements, complete, clock_.NowMs()));
  v1::ProfileSummary summary;
  summary.set_id(request.id());
  summary.set_problems(request.problems_size());
  summary.set_points(static_cast<std::int64_t>(measurements.size()));
  return summary;
}

}  // namespace ucudnn
