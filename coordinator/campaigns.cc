#include "coordinator/campaigns.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "coordinator/content.h"
#include "proto/convert.h"
#include "proto/json.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

constexpr UnixMillis kLookAfterMs = 2'000;

// With its kinds named, so that it means the same whoever is online.
std::string RequestText(const PlanInputs& inputs) {
  return ToJson(ToProto(inputs.request)).dump();
}

std::string KeyOf(const PlanInputs& inputs) {
  return Sha256(
      fmt::format("{} {}", inputs.record.revision, RequestText(inputs)));
}

// No task of the total is open; those never requested are not counted on.
bool Ended(const v1::MeasureProgress& progress) {
  return progress.done() + progress.failed() + progress.unasked() ==
         progress.total();
}

template <class Message>
Status Read(const CampaignRecord& record, const std::string& text,
            Message* message) {
  if (const Status read = FromJson(
          Json::parse(text, nullptr, /*allow_exceptions=*/false), message);
      !read) {
    return Fail(Code::kDataLoss, "campaign {} cannot be read back: {}",
                record.id, read.error().message);
  }
  return {};
}

}  // namespace

Status RecordCampaign(Campaigns& campaigns, const PlanInputs& inputs,
                      const v1::MeasureProgress& progress, UnixMillis now_ms) {
  CampaignRecord record;
  record.key = KeyOf(inputs);
  record.progress = ToJson(progress).dump();
  if (progress.enqueued() > 0) {
    record.request = RequestText(inputs);
    record.network_revision = inputs.record.revision;
    record.ended_before = progress.done() + progress.failed();
    record.created_ms = now_ms;
    record.updated_ms = now_ms;
    UCUDNN_RETURN_IF_ERROR(campaigns.BeginCampaign(record));
  }
  return campaigns.UpdateCampaign(record.key, record.progress, Ended(progress),
                                  now_ms);
}

Status LookAtCampaigns(Store& store, UnixMillis now_ms) {
  UCUDNN_ASSIGN_OR_RETURN(const auto running, store.ListRunningCampaigns(1));
  if (running.empty() || running[0].updated_ms > now_ms - kLookAfterMs) {
    return {};
  }
  const CampaignRecord& campaign = running[0];
  v1::MeasureRequest request;
  request.set_dry_run(true);
  UCUDNN_RETURN_IF_ERROR(
      Read(campaign, campaign.request, request.mutable_plan()));
  UCUDNN_ASSIGN_OR_RETURN(
      PlanInputs inputs,
      LookUp(store, store, request.plan(), campaign.network_revision));
  UCUDNN_ASSIGN_OR_RETURN(
      const v1::MeasureProgress progress,
      MeasureNeeds(store, Bytes(0), now_ms, request, &inputs));
  return RecordCampaign(store, inputs, progress, now_ms);
}

Result<v1::Campaign> ToProto(const CampaignRecord& record) {
  v1::Campaign campaign;
  v1::MeasureProgress progress;
  UCUDNN_RETURN_IF_ERROR(
      Read(record, record.request, campaign.mutable_request()));
  UCUDNN_RETURN_IF_ERROR(Read(record, record.progress, &progress));
  campaign.set_id(record.id);
  campaign.set_state(record.finished_ms == 0 ? "running" : "finished");
  campaign.set_created_ms(record.created_ms);
  campaign.set_updated_ms(record.updated_ms);
  campaign.set_finished_ms(record.finished_ms);
  campaign.set_total(progress.total());
  campaign.set_done(progress.done());
  campaign.set_running(progress.running());
  campaign.set_failed(progress.failed());
  *campaign.mutable_failures() = progress.failures();
  *campaign.mutable_kinds_without_device() = progress.kinds_without_device();
  const std::int64_t ended = progress.done() + progress.failed();
  const std::int64_t since = ended - record.ended_before;
  if (record.finished_ms == 0 && since > 0 &&
      progress.kinds_without_device().empty()) {
    const double pace =
        static_cast<double>(record.updated_ms - record.created_ms) /
        static_cast<double>(since);
    campaign.set_left_ms(static_cast<std::int64_t>(
        pace * static_cast<double>(progress.total() - ended)));
  }
  return campaign;
}

}  // namespace ucudnn
