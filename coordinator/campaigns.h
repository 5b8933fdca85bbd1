#ifndef UCUDNN_COORDINATOR_CAMPAIGNS_H_
#define UCUDNN_COORDINATOR_CAMPAIGNS_H_

// Keeps a record of the requests for plans that had to be measured for, so that
// people see what devices measure for and how long it will take.

#include "base/result.h"
#include "base/units.h"
#include "coordinator/measuring.h"
#include "coordinator/store/store.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// Records what MeasureNeeds returned for `inputs`: a campaign begins where
// `progress` has enqueued tasks, and ends where none is open any more.
Status RecordCampaign(Campaigns& campaigns, const PlanInputs& inputs,
                      const v1::MeasureProgress& progress, UnixMillis now_ms);

// Looks at the running campaign whose progress is oldest, if that is older than
// two seconds. Costs as much as a dry run of MeasureNeeds.
Status LookAtCampaigns(Store& store, UnixMillis now_ms);

// The record as a message, with the time left. kDataLoss if it cannot be read
// back.
Result<v1::Campaign> ToProto(const CampaignRecord& record);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_CAMPAIGNS_H_
