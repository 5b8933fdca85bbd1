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
v1::Step OutlineOf(const FrameworkStep& step) {
  v1::Step outline;
  outline.set_fingerprint(step.fingerprint);
  for (const StepKind& kind : step.kinds) {
    v1::StepKind& added = *outline.add_kinds();
    added.set_device_kind(kind.name);
    added.set_recorded(kind.steps.front().recorded.has_value());
    added.set_least_batch(LeastBatch(kind).count());
    added.set_passes(kind.passes);
    for (const MeasuredStep& batch : kind.steps) {
      v1::MeasuredStep& measured = *added.add_steps();
      // It was checked.
      const PlainStep plain = batch.recorded
                                  ? PlainRecordedStep(*batch.recorded).value()
                                  : PlainStep{batch.time, batch.peak};
      measured.set_batch(batch.batch.count());
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
  const Result<FrameworkStep> step = ParseStep(request.content());
  if (!step) return Within(request.name(), step.error());
  const StepRecord record{.name = request.name(),
                          .hash = Sha256(request.content()),
                          .put_by = request.who(),
                          .updated_ms = clock_.NowMs(),
                          .outline = OutlineOf(*step).SerializeAsString(),
                          .content = request.content()};
  UCUDNN_RETURN_IF_ERROR(store_.steps.PutStep(record, kMaxSteps));
  v1::GetRequest named;
  named.set_id(request.name());
  return GetStep(named);
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
