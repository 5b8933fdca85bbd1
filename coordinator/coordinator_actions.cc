// What people did, and what they delete.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <string>

#include "base/service/log.h"
#include "base/text.h"
#include "coordinator/campaigns.h"
#include "coordinator/coordinator.h"
#include "coordinator/page.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

// Has `remove` delete the object and record that; logs it afterwards.
template <class Remove>
Result<v1::DeleteResponse> Delete(const v1::DeleteRequest& request,
                                  const std::string& object, UnixMillis now_ms,
                                  const Remove& remove) {
  UCUDNN_RETURN_IF_ERROR(remove(ActionRecord{.made_ms = now_ms,
                                             .who = request.who(),
                                             .what = "delete",
                                             .object = object,
                                             .reason = request.reason(),
                                             .outcome = "deleted"}));
  spdlog::info("event=delete object={} who={} why={}", Quoted(object),
               Quoted(request.who()), Quoted(request.reason()));
  return v1::DeleteResponse();
}

// kFailedPrecondition if a running campaign or job needs the network.
Status CheckUnneeded(Coordinator& coordinator, const std::string& network) {
  v1::ListRequest list;
  list.set_limit(kMaxPage);
  while (true) {
    UCUDNN_ASSIGN_OR_RETURN(const auto page, coordinator.ListCampaigns(list));
    for (const v1::Campaign& campaign : page.campaigns()) {
      if (campaign.state() == "running" &&
          campaign.request().network() == network) {
        return Fail(Code::kFailedPrecondition,
                    "campaign {} measures for network '{}'; cancel it first",
                    campaign.id(), network);
      }
      list.set_after(fmt::format("{}", campaign.id()));
    }
    if (page.campaigns().empty()) break;
  }
  list.clear_after();
  while (true) {
    UCUDNN_ASSIGN_OR_RETURN(const auto page, coordinator.ListJobs(list));
    for (const v1::Job& job : page.jobs()) {
      if (job.state() == "running" && job.request().network() == network) {
        return Fail(Code::kFailedPrecondition,
                    "job '{}' runs network '{}'; it is deleted once the job "
                    "has ended",
                    job.id(), network);
      }
      list.set_after(job.id());
    }
    if (page.jobs().empty()) return {};
  }
}

}  // namespace

std::string ByWhomAndWhy(const std::string& who, const std::string& reason) {
  return fmt::format("by {}: {}", who.empty() ? "somebody" : who,
                     reason.empty() ? "no reason given" : reason);
}

Result<v1::ListActionsResponse> Coordinator::ListActions(
    const v1::ListRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(std::int64_t before, OlderThan(request));
  v1::ListActionsResponse response;
  PageBytes bytes;
  UCUDNN_RETURN_IF_ERROR(FillPage(
      request,
      [&](int limit) { return store_.actions.ListActions(limit, before); },
      [&](const ActionRecord& record) -> Result<bool> {
        before = record.id;
        v1::Action& action = *response.add_actions();
        action.set_id(record.id);
        action.set_made_ms(record.made_ms);
        action.set_who(record.who);
        action.set_what(record.what);
        action.set_object(record.object);
        action.set_reason(record.reason);
        action.set_outcome(record.outcome);
        return bytes.Fill(action);
      }));
  return response;
}

Result<v1::DeleteResponse> Coordinator::DeleteNetwork(
    const v1::DeleteRequest& request) {
  UCUDNN_RETURN_IF_ERROR(CheckUnneeded(*this, request.id()));
  return Delete(request, "network " + request.id(), clock_.NowMs(),
                [&](const ActionRecord& action) {
                  return store_.plans.DeleteNetwork(request.id(), action);
                });
}

Result<v1::DeleteResponse> Coordinator::DeletePlan(
    const v1::DeleteRequest& request) {
  const Result<std::int64_t> id = ParseInteger(request.id(), 1, kMaxCount);
  if (!id) return Within("plan id", id.error());
  UCUDNN_ASSIGN_OR_RETURN(v1::DeleteResponse deleted,
                          Delete(request, fmt::format("plan {}", *id),
                                 clock_.NowMs(), [&](const auto& action) {
                                   return store_.plans.DeletePlan(*id, action);
                                 }));
  plans_.Clear();
  return deleted;
}

Result<v1::DeleteResponse> Coordinator::DeleteJob(
    const v1::DeleteRequest& request) {
  return Delete(request, "job " + request.id(), clock_.NowMs(),
                [&](const ActionRecord& action) {
                  return store_.jobs.DeleteJob(request.id(), action);
                });
}

Result<v1::DeleteResponse> Coordinator::DeleteAgent(
    const v1::DeleteRequest& request) {
  const auto guard = heartbeats_.Forget(request.id());
  return Delete(request, "node " + request.id(), clock_.NowMs(),
                [&](const ActionRecord& action) {
                  return store_.agents.DeleteAgent(request.id(), action);
                });
}

}  // namespace ucudnn
