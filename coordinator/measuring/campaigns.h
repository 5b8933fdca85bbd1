#ifndef UCUDNN_COORDINATOR_MEASURING_CAMPAIGNS_H_
#define UCUDNN_COORDINATOR_MEASURING_CAMPAIGNS_H_

// Keeps a record of the requests for plans that had to be measured for, so that
// people see what devices measure for and how long it will take.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/units.h"
#include "coordinator/measuring/measuring.h"
#include "coordinator/stores.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// Records what MeasureNeeds returned for `inputs`: a campaign begins where
// `progress` has enqueued tasks, and ends where none is open any more. Returns
// the id of the campaign; 0 if none runs.
Result<std::int64_t> RecordCampaign(CampaignStore& campaigns,
                                    const PlanInputs& inputs,
                                    const v1::MeasureProgress& progress,
                                    UnixMillis now_ms);

// Ends the running campaign, for the reason `why`.
Status EndCampaign(CampaignStore& campaigns, const CampaignRecord& campaign,
                   v1::MeasureProgress progress, const std::string& why,
                   UnixMillis now_ms);

// What the campaign is for. kDataLoss if it cannot be read back.
Result<JobRequest> RequestOf(const CampaignRecord& campaign);

// What the campaign measures. Errors of RequestOf and LookUp.
Result<PlanInputs> InputsOf(Store& store, const CampaignRecord& campaign);

// Adds to the progress of a dry run how long the missing tasks will take, and
// how many others come first.
Status AddEstimate(Store& store, const JobRequest& request, UnixMillis now_ms,
                   v1::MeasureProgress* progress);

// Looks at the running campaign whose progress is oldest, if that is older than
// two seconds. Costs as much as a dry run of MeasureNeeds.
Status LookAtCampaigns(Store& store, UnixMillis now_ms);

// The record as a message, with the time left. kDataLoss if it cannot be read
// back.
Result<v1::Campaign> ToProto(const CampaignRecord& record);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_MEASURING_CAMPAIGNS_H_
