// Campaigns, for people.

#include "base/text.h"
#include "coordinator/campaigns.h"
#include "coordinator/coordinator.h"
#include "coordinator/page.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {

Result<v1::ListCampaignsResponse> Coordinator::ListCampaigns(
    const v1::ListRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(std::int64_t before, OlderThan(request));
  v1::ListCampaignsResponse response;
  PageBytes bytes;
  UCUDNN_RETURN_IF_ERROR(FillPage(
      request,
      [&](int limit) { return store_.campaigns.ListCampaigns(limit, before); },
      [&](const CampaignRecord& record) -> Result<bool> {
        before = record.id;
        UCUDNN_ASSIGN_OR_RETURN(*response.add_campaigns(), ToProto(record));
        return bytes.Fill(*response.campaigns().rbegin());
      }));
  return response;
}

Result<v1::Campaign> Coordinator::GetCampaign(const v1::GetRequest& request) {
  const Result<std::int64_t> id = ParseInteger(request.id(), 1, kMaxCount);
  if (!id) return Within("campaign id", id.error());
  UCUDNN_ASSIGN_OR_RETURN(const CampaignRecord campaign,
                          store_.campaigns.GetCampaign(*id));
  return ToProto(campaign);
}

}  // namespace ucudnn
