#include "coordinator/measuring/campaigns.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "coordinator/networks/stored_network.h"
#include "proto/convert_plan.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

constexpr UnixMillis kLookAfterMs = 2'000;

// With its kinds named, so that it means the same whoever is online.
std::string RequestBytes(const PlanInputs& inputs) {
  return ToProto(inputs.request).SerializeAsString();
}

std::string KeyOf(const PlanInputs& inputs) {
  return Sha256(
      fmt::format("{} {}", inputs.record.revision, RequestBytes(inputs)));
}

// No task of the total is open; those never requested are not counted on.
bool Ended(const v1::MeasureProgress& progress) {
  return progress.done() + progress.failed() + progress.cancelled() +
             progress.unasked() ==
         progress.total();
}

Status Read(const CampaignRecord& record, const std::string& bytes,
            google::protobuf::Message* message) {
  if (message->ParseFromString(bytes)) return {};
  return Fail(Code::kDataLoss, "campaign {} cannot be read back", record.id);
}

}  // namespace

Result<std::int64_t> RecordCampaign(CampaignStore& campaigns,
                                    const PlanInputs& inputs,
                                    const v1::MeasureProgress& progress,
                                    UnixMillis now_ms) {
  CampaignRecord record;
  record.key = KeyOf(inputs);
  record.progress = progress.SerializeAsString();
  if (progress.enqueued() > 0) {
    record.request = RequestBytes(inputs);
    record.network_revision = inputs.record.revision;
    record.ended_before = progress.done() + progress.failed();
    record.created_ms = now_ms;
    record.updated_ms = now_ms;
    UCUDNN_RETURN_IF_ERROR(campaigns.BeginCampaign(record));
  }
  return campaigns.UpdateCampaign(record.key, record.progress, Ended(progress),
                                  now_ms);
}

Status EndCampaign(CampaignStore& campaigns, const CampaignRecord& campaign,
                   v1::MeasureProgress progress, const std::string& why,
                   UnixMillis now_ms) {
  progress.set_cancelled_why(why);
  UCUDNN_RETURN_IF_ERROR(campaigns.UpdateCampaign(
      campaign.key, progress.SerializeAsString(), /*ended=*/true, now_ms));
  return {};
}

Result<JobRequest> RequestOf(const CampaignRecord& campaign) {
  v1::PlanRequest request;
  UCUDNN_RETURN_IF_ERROR(Read(campaign, campaign.request, &request));
  return FromProto(request);
}

Result<PlanInputs> InputsOf(Store& store, const CampaignRecord& campaign) {
  UCUDNN_ASSIGN_OR_RETURN(const JobRequest request, RequestOf(campaign));
  return LookUp(store.agents, store.networks, request,
                campaign.network_revision);
}

Status LookAtCampaigns(Store& store, UnixMillis now_ms) {
  UCUDNN_ASSIGN_OR_RETURN(const auto running,
                          store.campaigns.ListRunningCampaigns(1));
  if (running.empty() || running[0].updated_ms > now_ms - kLookAfterMs) {
    return {};
  }
  const CampaignRecord& campaign = running[0];
  UCUDNN_ASSIGN_OR_RETURN(PlanInputs inputs, InputsOf(store, campaign));
  UCUDNN_ASSIGN_OR_RETURN(const v1::MeasureProgress progress,
                          MeasureNeeds(store, Bytes(0), now_ms,
                                       {.dry_run = true}, Asker(), &inputs));
  UCUDNN_RETURN_IF_ERROR(
      RecordCampaign(store.campaigns, inputs, progress, now_ms));
  return {};
}

Status AddEstimate(Store& store, const JobRequest& request, UnixMillis now_ms,
                   v1::MeasureProgress* progress) {
  constexpr std::int64_t kRecent = 50;
  UCUDNN_ASSIGN_OR_RETURN(const auto records,
                          store.campaigns.ListCampaigns(kRecent, 0));
  std::vector<v1::Campaign> campaigns;
  for (const CampaignRecord& record : records) {
    UCUDNN_ASSIGN_OR_RETURN(campaigns.emplace_back(), ToProto(record));
  }
  // The milliseconds of one task of the kind, by the newest campaign on it, if
  // possible one that chose its batches the same way.
  const auto pace = [&](const std::string& kind) -> std::optional<double> {
    std::optional<double> found;
    for (std::size_t i = 0; i < campaigns.size(); ++i) {
      const v1::PlanRequest& of = campaigns[i].request();
      const std::set<std::string> kinds(of.device_kinds().begin(),
                                        of.device_kinds().end());
      const std::int64_t tasks =
          campaigns[i].done() + campaigns[i].failed() - records[i].ended_before;
      const bool alike = of.batch_policy() == Name(request.policy);
      if (!kinds.contains(kind) || tasks <= 0 || (found && !alike)) continue;
      found = static_cast<double>(campaigns[i].updated_ms() -
                                  campaigns[i].created_ms()) *
              static_cast<double>(kinds.size()) / static_cast<double>(tasks);
      if (alike) break;
    }
    return found;
  };
  UCUDNN_ASSIGN_OR_RETURN(const auto counts, store.tasks.CountTasks(now_ms));
  double longest = 0;
  for (v1::KindProgress& kind : *progress->mutable_kinds()) {
    if (kind.missing() == 0) continue;
    const auto open = counts.find(kind.kind());
    if (open != counts.end()) {
      kind.set_ahead(
          std::max<std::int64_t>(0, open->second.pending - kind.pending()));
    }
    const auto each = pace(kind.kind());
    if (!each || kind.devices() == 0) return {};
    longest = std::max(
        longest, *each * static_cast<double>(kind.missing() + kind.ahead()));
  }
  progress->set_estimate_ms(static_cast<std::int64_t>(longest));
  return {};
}

Result<v1::Campaign> ToProto(const CampaignRecord& record) {
  v1::Campaign campaign;
  v1::MeasureProgress progress;
  UCUDNN_RETURN_IF_ERROR(
      Read(record, record.request, campaign.mutable_request()));
  UCUDNN_RETURN_IF_ERROR(Read(record, record.progress, &progress));
  campaign.set_id(record.id);
  campaign.set_state(record.finished_ms == 0            ? "running"
                     : progress.cancelled_why().empty() ? "finished"
                                                        : "cancelled");
  campaign.set_created_ms(record.created_ms);
  campaign.set_updated_ms(record.updated_ms);
  campaign.set_finished_ms(record.finished_ms);
  campaign.set_total(progress.total());
  campaign.set_done(progress.done());
  campaign.set_running(progress.running());
  campaign.set_failed(progress.failed());
  campaign.set_cancelled(progress.cancelled());
  campaign.set_cancelled_why(progress.cancelled_why());
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
