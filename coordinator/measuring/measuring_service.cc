#include "coordinator/measuring/measuring_service.h"

#include "coordinator/measuring/campaigns.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {

Status MeasuringService::CheckUnneeded(const std::string& network) {
  constexpr std::int64_t kMostRunning = 1000;
  UCUDNN_ASSIGN_OR_RETURN(const auto running,
                          store_.campaigns.ListRunningCampaigns(kMostRunning));
  for (const CampaignRecord& record : running) {
    UCUDNN_ASSIGN_OR_RETURN(const JobRequest request, RequestOf(record));
    if (request.network != network) continue;
    return Fail(Code::kFailedPrecondition,
                "campaign {} measures for network '{}'; cancel it first",
                record.id, network);
  }
  return {};
}

Status MeasuringService::Maintain(const ChangeCounts& counts) {
  cross_checks_.LookAt(counts);
  return LookAtCampaigns(store_, clock_.NowMs());
}

}  // namespace ucudnn
