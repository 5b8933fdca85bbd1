#ifndef UCUDNN_COORDINATOR_COORDINATOR_H_
#define UCUDNN_COORDINATOR_COORDINATOR_H_

// What the coordinator does, over any wire: gRPC and REST decode a message,
// call a method of a service and encode what it returns, so both give the same
// answers and errors. Each service knows those above it here:
//
//   Coordinator coordinator(options, *store, clock);
//   coordinator.plans.CreatePlan(request);

#include <tuple>
#include <utility>

#include "coordinator/agents/agent_service.h"
#include "coordinator/context.h"
#include "coordinator/jobs/job_service.h"
#include "coordinator/measuring/measuring_service.h"
#include "coordinator/networks/network_service.h"
#include "coordinator/plans/plan_service.h"
#include "coordinator/steps/step_service.h"
#include "coordinator/upkeep/upkeep_service.h"

namespace ucudnn {

struct Coordinator {
  Coordinator(CoordinatorOptions options, Store& store, const Clock& clock)
      : context(std::move(options), store, clock) {}

  // The service of this class.
  template <class Service>
  Service& Get() {
    return std::get<Service&>(
        std::tie(agents, networks, steps, measuring, plans, jobs, upkeep));
  }

  Context context;
  AgentService agents{context};
  NetworkService networks{context};
  StepService steps{context};
  MeasuringService measuring{context, agents};
  PlanService plans{context};
  JobService jobs{context, agents, plans};
  UpkeepService upkeep{context, agents, measuring, plans, jobs};
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_COORDINATOR_H_
