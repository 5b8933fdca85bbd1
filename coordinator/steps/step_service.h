#ifndef UCUDNN_COORDINATOR_STEPS_STEP_SERVICE_H_
#define UCUDNN_COORDINATOR_STEPS_STEP_SERVICE_H_

// The training steps of frameworks that plans are made for. Callers include
// ucudnn/v1/*.pb.h for the messages.

#include <string>

#include "base/result.h"
#include "coordinator/context.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// Thread-safe. What a call acknowledges is stored.
class StepService {
 public:
  explicit StepService(Context& context)
      : store_(context.store), clock_(context.clock) {}

  // See proto/ucudnn/v1/coordinator.proto.
  Result<v1::Step> PutStep(const v1::PutStepRequest& request);
  Result<v1::ListStepsResponse> ListSteps(const v1::ListRequest& request);
  Result<v1::Step> GetStep(const v1::GetRequest& request);

 private:
  Store& store_;
  const Clock& clock_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STEPS_STEP_SERVICE_H_
