#include "coordinator/steps/step_service.h"

#include <string>
#include <utility>
#include <vector>

#include "coordinator/limits.h"
#include "coordinator/networks/stored_network.h"
#include "coordinator/page.h"
#include "coordinator/request_check.h"
#include "solver/step_file.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

// What people and lists are told of a step.
v1::Step OutlineOf(const std::vector<StepKind>& kinds) {
  v1::Step outline;
  for (const StepKind& kind : kinds) {
    v1::StepKind& added = *outline.add_kinds();
    added.set_device_kind(kind.name);
    added.set_recorded(kind.steps.front().recorded.has_value());
    added.set_least_batch(LeastBatch(kind).count());
    added.set_passes(kind.passes);
    added.set_fingerprint(kind.fingerprint);
    for (const MeasuredStep& step : kind.steps) {
      v1::MeasuredStep& measured = *added.add_steps();
      // It was checked.
      const PlainStep plain = step.recorded
                                  ? PlainRecordedStep(*step.recorded).value()
                                  : PlainStep{step.time, step.peak};
      measured.set_batch(step.batch.count());
      measured.set_time_ns(plain.time.count());
      measured.set_peak_bytes(plain.peak.count());
    }
  }
  return outline;
}

Result<v1::Step> ToProto(const StepRecord& record) {
  v1::Step step;
  if (!step.ParseFromString(record.outline)) {
    return Fail(Code::kDataLoss, "the stored step '{}' cannot be read back",
                record.name);
  }
  step.set_name(record.name);
  step.set_revision(record.revision);
  step.set_put_by(record.put_by);
  step.set_updated_ms(record.updated_ms);
  return step;
}

}  // namespace

Result<v1::Step> StepService::PutStep(const v1::PutStepRequest& request) {
  UCUDNN_RETURN_IF_ERROR(CheckName(request.name()));
  const Result<std::vector<StepKind>> kinds = ParseStep(request.content());
  if (!kinds) return Within(request.name(), kinds.error());
  const StepRecord record{.name = request.name(),
                          .hash = Sha256(request.content()),
                          .put_by = request.who(),
                          .updated_ms = clock_.NowMs(),
                          .outline = OutlineOf(*kinds).SerializeAsString(),
                          .content = request.content()};
  UCUDNN_ASSIGN_OR_RETURN(
      const StepRecord stored,
      store_.steps.PutStep(record, kMaxSteps,
                           /*own_only=*/request.who().starts_with("job ")));
  return ToProto(stored);
}

Result<v1::ListStepsResponse> StepService::ListSteps(
    const v1::ListRequest& request) {
  v1::ListStepsResponse response;
  PageBytes bytes;
  std::string after = request.after();
  UCUDNN_RETURN_IF_ERROR(FillPage(
      request, [&](int limit) { return store_.steps.ListSteps(limit, after); },
      [&](const StepRecord& step) -> Result<bool> {
        after = step.name;
        v1::Step& added = *response.add_steps();
        UCUDNN_ASSIGN_OR_RETURN(added, ToProto(step));
        return bytes.Fill(added);
      }));
  return response;
}

Result<v1::Step> StepService::GetStep(const v1::GetRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const StepRecord step,
                          store_.steps.GetStep(request.id()));
  return ToProto(step);
}

}  // namespace ucudnn
