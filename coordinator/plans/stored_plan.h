#ifndef UCUDNN_COORDINATOR_PLANS_STORED_PLAN_H_
#define UCUDNN_COORDINATOR_PLANS_STORED_PLAN_H_

#include "base/result.h"
#include "coordinator/store/plans.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// The plan with its id. kDataLoss if the stored body cannot be read back.
Result<v1::Plan> ToProto(const PlanRecord& record);

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANS_STORED_PLAN_H_
