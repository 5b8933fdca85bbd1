#ifndef UCUDNN_COORDINATOR_PLANS_PLAN_SERVICE_H_
#define UCUDNN_COORDINATOR_PLANS_PLAN_SERVICE_H_

// Plans: what is measured for them, making, keeping and showing them. Callers
// include ucudnn/v1/*.pb.h for the messages.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/plan/job_plan.h"
#include "base/result.h"
#include "base/units.h"
#include "coordinator/context.h"
#include "coordinator/limits.h"
#include "coordinator/measuring/measuring.h"
#include "coordinator/plans/lru_cache.h"
#include "coordinator/plans/plan_cache.h"
#include "coordinator/plans/plan_uses.h"
#include "coordinator/plans/single_flight.h"
#include "proto/messages_fwd.h"

namespace ucudnn {

// What answers a request for which there is a plan whose search was cut off.
enum class IfCutOff { kSearchAgain, kTakeIt };

struct MadePlan {
  std::int64_t id = 0;
  Nanoseconds predicted{0};
  bool cut_off = false;  // its search
  // The plan with its id, serialised, if it was made just now.
  PlanBytes bytes = nullptr;
};

// Thread-safe. What a call acknowledges is stored.
class PlanService {
 public:
  explicit PlanService(Context& context)
      : context_(context), store_(context.store), clock_(context.clock) {}

  // See proto/ucudnn/v1/coordinator.proto.
  Result<v1::Plan> CreatePlan(const v1::PlanRequest& request);
  Result<v1::ListPlansResponse> ListPlans(const v1::ListRequest& request);
  Result<v1::Plan> GetPlan(const v1::GetRequest& request);
  // The same, serialised. Quick if the plan was read or made lately, but a plan
  // that another coordinator deletes is found for some seconds more.
  Result<PlanBytes> GetPlanBytes(const v1::GetRequest& request);
  Result<v1::DeleteResponse> DeletePlan(const v1::DeleteRequest& request);
  Result<v1::Front> GetFront(const v1::GetFrontRequest& request);
  Result<v1::Allocation> Allocate(const v1::AllocateRequest& request);

  // Has what the plan needs measured.
  Result<v1::MeasureProgress> Measure(const JobRequest& request,
                                      const MeasureOptions& options);
  // The plan for the request, made unless it is stored. A plan whose search was
  // cut off answers no later request: that searches again, unless `if_cut_off`
  // says otherwise, and gets the faster of both plans.
  Result<MadePlan> PlanFor(const JobRequest& request, IfCutOff if_cut_off);
  // The plan without kernels and memory plans. Quick if it was read lately,
  // even if it was deleted meanwhile.
  Result<JobPlan> OutlineOf(std::int64_t id);

  // Forgets the plans that are kept: some were deleted.
  void ForgetDeleted() { plans_.Clear(); }
  // Writes which plans were used, and looks whether any was deleted.
  // `counted_ms` is when the changes were, on the steady clock.
  Status Maintain(const ChangeCounts& counts, std::int64_t counted_ms);

 private:
  // The caller, with what they may have measured.
  Asker CallerAsks() const;

  // What a request's plan was made from.
  struct Planned {
    MadePlan plan;  // without its bytes
    ChangeCounts counts;
    std::set<std::string> kinds;
    Bytes measure_workspace;
    std::int64_t made_ms = 0;  // when its search ended, on the steady clock
  };

  // An equal request, if nothing that its plan was made from changed since;
  // otherwise null. To search again, a plan that was cut off is that of
  // requests only that waited for it: `asked_ms` is before it was made. In
  // `counts`, what is counted now.
  Result<std::shared_ptr<const Planned>> PlanAgain(const std::string& request,
                                                   IfCutOff if_cut_off,
                                                   std::int64_t asked_ms,
                                                   ChangeCounts* counts);
  // The plan with these inputs, made anew unless it is stored. Of plans that
  // were cut off, the fastest so far.
  Result<MadePlan> MakeOrFindPlan(const JobRequest& request,
                                  IfCutOff if_cut_off);
  // The same for a request that names a step.
  Result<MadePlan> MakeOrFindStepPlan(const JobRequest& request,
                                      IfCutOff if_cut_off);
  // The stored plan of these inputs, or else what `make` returns, stored. Of
  // plans that were cut off, the fastest so far.
  Result<MadePlan> FindOrMake(const std::string& inputs, bool may_be_cut_off,
                              IfCutOff if_cut_off,
                              const std::function<Result<JobPlan>()>& make);
  // Stores the plan, unless there is one with its key.
  Result<MadePlan> Keep(const JobPlan& plan, const std::string& key);
  // OutlineOf, as a message.
  Result<std::shared_ptr<const v1::Plan>> Outline(std::int64_t id);
  Result<PlanBytes> BytesOf(std::int64_t id);
  Result<v1::Plan> PlanOf(std::int64_t id);

  Context& context_;
  Store& store_;
  const Clock& clock_;
  SingleFlight planning_;  // by request
  PlanCache plans_{kMaxCachedPlanBytes};
  LruCache<std::int64_t, v1::Plan> outlines_{kMaxCachedOutlineBytes};
  PlanUses plan_uses_;
  LruCache<std::string, Planned> planned_{kMaxCachedRequestBytes};
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_PLANS_PLAN_SERVICE_H_
