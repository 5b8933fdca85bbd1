// Deletes what ended long ago, by itself and on request.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "base/service/call.h"
#include "base/service/log.h"
#include "coordinator/upkeep/upkeep_service.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

constexpr std::int64_t kPassIntervalMs = 3'600'000;

Status CheckDays(const char* name, std::int64_t days) {
  if (days >= 0 && days <= kMaxKeepDays) return {};
  return Fail(Code::kInvalidArgument, "{} is {}; 0 to {} is accepted", name,
              days, kMaxKeepDays);
}

std::string CountsText(const PruneCounts& counts) {
  return fmt::format("{} tasks, {} rows of steps, {} plans, {} jobs",
                     counts.tasks, counts.steps, counts.plans, counts.jobs);
}

v1::PruneResponse ToProto(const PruneCounts& counts) {
  v1::PruneResponse response;
  response.set_tasks(counts.tasks);
  response.set_steps(counts.steps);
  response.set_plans(counts.plans);
  response.set_jobs(counts.jobs);
  return response;
}

// What the request keeps, or else the settings.
Result<KeepDays> KeepOf(const v1::PruneRequest& request, KeepDays keep) {
  if (request.has_keep_tasks_days()) keep.tasks = request.keep_tasks_days();
  if (request.has_keep_steps_days()) keep.steps = request.keep_steps_days();
  if (request.has_keep_plans_days()) keep.plans = request.keep_plans_days();
  if (request.has_keep_jobs_days()) keep.jobs = request.keep_jobs_days();
  UCUDNN_RETURN_IF_ERROR(CheckDays("keep_tasks_days", keep.tasks));
  UCUDNN_RETURN_IF_ERROR(CheckDays("keep_steps_days", keep.steps));
  UCUDNN_RETURN_IF_ERROR(CheckDays("keep_plans_days", keep.plans));
  UCUDNN_RETURN_IF_ERROR(CheckDays("keep_jobs_days", keep.jobs));
  return keep;
}

}  // namespace

Result<v1::PruneResponse> UpkeepService::Prune(
    const v1::PruneRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const KeepDays keep,
                          KeepOf(request, context_.options()->keep));
  if (keep == KeepDays()) {
    return Fail(Code::kFailedPrecondition,
                "everything is kept forever; name for how many days, or set it "
                "in the coordinator's configuration (keep-jobs-days = 90)");
  }
  const Cutoffs cutoffs = CutoffsAt(keep, clock_.NowMs());
  if (request.dry_run()) {
    UCUDNN_ASSIGN_OR_RETURN(const PruneCounts counts,
                            store_.retention.CountPrunable(cutoffs));
    return ToProto(counts);
  }
  RetentionPass pass(store_.retention, cutoffs);
  Result<bool> ended = false;
  while (ended && !*ended) {
    const Status wanted = Call::Check();
    ended = wanted ? pass.Step()
                   : Result<bool>(tl::unexpected<Error>(wanted.error()));
  }
  if (pass.deleted().plans > 0) plans_.ForgetDeleted();
  // Also of a pass that ended early.
  UCUDNN_RETURN_IF_ERROR(store_.actions.AddAction(
      {.made_ms = clock_.NowMs(),
       .who = request.who(),
       .what = "prune",
       .object = fmt::format("tasks {} d, steps {} d, plans {} d, jobs {} d",
                             keep.tasks, keep.steps, keep.plans, keep.jobs),
       .reason = request.reason(),
       .outcome = CountsText(pass.deleted())}));
  spdlog::info("event=prune who={} why={} deleted={}", Quoted(request.who()),
               Quoted(request.reason()), Quoted(CountsText(pass.deleted())));
  if (!ended) return tl::unexpected<Error>(std::move(ended).error());
  return ToProto(pass.deleted());
}

Status UpkeepService::PruneSome() {
  if (!pass_) {
    const KeepDays keep = context_.options()->keep;
    const std::int64_t now = clock_.SteadyMs();
    if (keep == KeepDays() ||
        (pruned_ms_ && now - *pruned_ms_ < kPassIntervalMs)) {
      return {};
    }
    pruned_ms_ = now;
    pass_.emplace(store_.retention, CutoffsAt(keep, clock_.NowMs()));
  }
  const std::int64_t plans = pass_->deleted().plans;
  UCUDNN_ASSIGN_OR_RETURN(const bool ended, pass_->Step());
  if (pass_->deleted().plans > plans) plans_.ForgetDeleted();
  if (!ended) return {};
  if (pass_->deleted() != PruneCounts()) {
    spdlog::info("event=prune deleted={}",
                 Quoted(CountsText(pass_->deleted())));
  }
  pass_.reset();
  return {};
}

}  // namespace ucudnn
