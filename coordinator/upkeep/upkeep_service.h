#ifndef UCUDNN_COORDINATOR_UPKEEP_UPKEEP_SERVICE_H_
#define UCUDNN_COORDINATOR_UPKEEP_UPKEEP_SERVICE_H_

// What concerns all subjects: maintenance, what is deleted, what people did,
// and the state of the whole. Callers include ucudnn/v1/*.pb.h for the
// messages.

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "coordinator/agents/agent_service.h"
#include "coordinator/context.h"
#include "coordinator/jobs/job_service.h"
#include "coordinator/measuring/measuring_service.h"
#include "coordinator/plans/plan_service.h"
#include "coordinator/upkeep/retention.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// Thread-safe, but for Maintain.
class UpkeepService {
 public:
  UpkeepService(Context& context, AgentService& agents,
                MeasuringService& measuring, PlanService& plans,
                JobService& jobs)
      : context_(context),
        store_(context.store),
        clock_(context.clock),
        agents_(agents),
        measuring_(measuring),
        plans_(plans),
        jobs_(jobs) {}

  // See proto/ucudnn/v1/coordinator.proto.
  Result<v1::StatusResponse> GetStatus(const v1::StatusRequest& request);
  Result<v1::ListActionsResponse> ListActions(const v1::ListRequest& request);
  Result<v1::PruneResponse> Prune(const v1::PruneRequest& request);
  // A network that no running campaign or job needs.
  Result<v1::DeleteResponse> DeleteNetwork(const v1::DeleteRequest& request);
  Result<v1::DeleteResponse> DeleteStep(const v1::DeleteRequest& request);

  // Maintains all services, and deletes some of what ended long ago. To be
  // called about twice per heartbeat interval, by one thread.
  Status Maintain();

 private:
  // Deletes a piece of what ended long ago, about once an hour until nothing is
  // left.
  Status PruneSome();

  Context& context_;
  Store& store_;
  const Clock& clock_;
  AgentService& agents_;
  MeasuringService& measuring_;
  PlanService& plans_;
  JobService& jobs_;
  // Used by Maintain only.
  std::optional<RetentionPass> pass_;
  std::optional<std::int64_t> pruned_ms_;  // when the last pass began
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_UPKEEP_UPKEEP_SERVICE_H_
