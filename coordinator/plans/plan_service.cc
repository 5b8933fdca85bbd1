#include "coordinator/plans/plan_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/service/call.h"
#include "base/text.h"
#include "coordinator/actions.h"
#include "coordinator/measuring/campaigns.h"
#include "coordinator/measuring/cross_checking.h"
#include "coordinator/measuring/device_models.h"
#include "coordinator/networks/stored_network.h"
#include "coordinator/page.h"
#include "coordinator/planning/memory_planner.h"
#include "coordinator/planning/planner.h"
#include "coordinator/planning/step_planner.h"
#include "coordinator/planning/under_load.h"
#include "proto/convert.h"
#include "proto/convert_plan.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

Result<std::int64_t> ParseId(const std::string& text) {
  const Result<std::int64_t> id = ParseInteger(text, 1, kMaxCount);
  if (!id) return Within("plan id", id.error());
  return id;
}

// The plans with these inputs whose searches were cut off. Each is faster than
// the one before, and has a key that no search for a plan finds.
struct CutOffPlans {
  std::optional<StoredPlan> fastest;
  std::string next_key;  // of a faster one
};

Result<CutOffPlans> FindCutOff(PlanStore& plans, const std::string& inputs) {
  CutOffPlans found;
  for (int number = 1;; ++number) {
    found.next_key = Sha256(fmt::format("{}\ncut off {}", inputs, number));
    UCUDNN_ASSIGN_OR_RETURN(const auto known, plans.FindPlan(found.next_key));
    if (!known) return found;
    found.fastest = known;
  }
}

// kAborted if the model of one of these kinds is missing.
Status CheckModels(const DeviceModels& models,
                   const std::set<std::string>& kinds) {
  for (const std::string& kind : kinds) {
    if (models.contains(kind)) continue;
    return Fail(Code::kAborted,
                "the device model of kind '{}' is missing: its devices measure "
                "it when they come online; or import one with `ucudnn profiles "
                "import`",
                kind);
  }
  return {};
}

// Requests that mean the same have the same.
std::string KeyOf(const JobRequest& request) {
  return ToProto(request).SerializeAsString();
}

// A plan's fields, serialised, with its id among them: it is stored without.
std::string WithId(std::int64_t id, const std::string& fields) {
  v1::Plan named;
  named.set_id(id);
  std::string bytes = named.SerializeAsString();
  bytes.reserve(bytes.size() + fields.size());
  return bytes += fields;
}

PlanRecord RecordOf(const JobPlan& plan, const std::string& key) {
  v1::Plan message = ToProto(plan);
  PlanRecord record{.key = key,
                    .predicted = plan.predicted,
                    .created_ms = plan.created_ms,
                    .outline = "",
                    .body = message.SerializeAsString()};
  message.clear_memory_plans();
  for (v1::RankPlan& rank : *message.mutable_ranks()) {
    if (!rank.has_workspace()) continue;
    rank.mutable_workspace()->clear_kernels();
    rank.mutable_workspace()->clear_concurrency();
  }
  record.outline = message.SerializeAsString();
  return record;
}

Result<v1::Plan> Parse(const std::string& bytes) {
  v1::Plan plan;
  if (plan.ParseFromString(bytes)) return plan;
  return Fail(Code::kDataLoss, "a stored plan cannot be read back");
}

}  // namespace

Asker PlanService::CallerAsks() const {
  const auto options = context_.options();
  return {.caller = Call::Caller(),
          .max_open = options->max_queued_measurements,
          .max_open_of_caller = options->max_queued_measurements_per_caller};
}

Result<v1::MeasureProgress> PlanService::Measure(
    const JobRequest& request, const MeasureOptions& options) {
  // Frameworks measured it.
  if (!request.step.empty()) return v1::MeasureProgress();
  std::optional<SingleFlight::Turn> turn;
  if (!options.dry_run) {
    UCUDNN_ASSIGN_OR_RETURN(SingleFlight::Turn taken,
                            planning_.Take(KeyOf(request)));
    turn.emplace(std::move(taken));
  }
  UCUDNN_ASSIGN_OR_RETURN(PlanInputs inputs,
                          LookUp(store_.agents, store_.networks, request));
  if (!options.dry_run && !options.wait_for_device) {
    UCUDNN_RETURN_IF_ERROR(
        CheckDevices(store_, inputs, /*may_return=*/false, clock_.NowMs()));
  }
  if (!options.dry_run) {
    UCUDNN_RETURN_IF_ERROR(CheckQueue(store_.tasks, options, inputs,
                                      CallerAsks(), clock_.NowMs()));
  }
  UCUDNN_ASSIGN_OR_RETURN(
      v1::MeasureProgress progress,
      MeasureNeeds(store_, context_.options()->measure_workspace,
                   clock_.NowMs(), options, CallerAsks(), &inputs));
  if (options.dry_run) {
    // A client that follows what it has requested needs no estimate.
    if (progress.unasked() + progress.cancelled() > 0) {
      UCUDNN_RETURN_IF_ERROR(
          AddEstimate(store_, inputs.request, clock_.NowMs(), &progress));
    }
    return progress;
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const std::int64_t campaign,
      RecordCampaign(store_.campaigns, inputs, progress, clock_.NowMs()));
  progress.set_campaign_id(campaign);
  return progress;
}

Result<std::shared_ptr<const PlanService::Planned>> PlanService::PlanAgain(
    const std::string& request, IfCutOff if_cut_off, std::int64_t asked_ms,
    ChangeCounts* counts) {
  const std::int64_t now = clock_.SteadyMs();
  UCUDNN_ASSIGN_OR_RETURN(*counts, store_.changes.CountChanges());
  plans_.Deleted(counts->deleted_plans, now);
  auto planned = planned_.Find(request);
  if (planned == nullptr ||
      planned->measure_workspace != context_.options()->measure_workspace ||
      planned->counts.networks != counts->networks ||
      planned->counts.steps != counts->steps ||
      planned->counts.deleted_plans != counts->deleted_plans) {
    return nullptr;
  }
  if (planned->plan.cut_off && if_cut_off == IfCutOff::kSearchAgain &&
      planned->made_ms <= asked_ms) {
    return nullptr;
  }
  // Which kinds are online decides for requests that name none.
  if (planned->kinds.empty() && planned->counts.kinds != counts->kinds) {
    return nullptr;
  }
  for (const std::string& kind : planned->kinds) {
    if (CountOf(planned->counts.kinds, kind) != CountOf(counts->kinds, kind)) {
      return nullptr;
    }
  }
  plan_uses_.Note(planned->plan.id, clock_.NowMs());
  return planned;
}

Result<v1::Plan> PlanService::CreatePlan(const v1::PlanRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const JobRequest wanted, FromProto(request));
  UCUDNN_ASSIGN_OR_RETURN(const MadePlan made,
                          PlanFor(wanted, IfCutOff::kSearchAgain));
  return made.bytes == nullptr ? PlanOf(made.id) : Parse(*made.bytes);
}

Result<MadePlan> PlanService::PlanFor(const JobRequest& request,
                                      IfCutOff if_cut_off) {
  std::string key = KeyOf(request);
  const std::int64_t asked_ms = clock_.SteadyMs();
  Planned planned;
  UCUDNN_ASSIGN_OR_RETURN(
      auto again, PlanAgain(key, if_cut_off, asked_ms, &planned.counts));
  if (again != nullptr) return again->plan;
  UCUDNN_ASSIGN_OR_RETURN(const SingleFlight::Turn turn, planning_.Take(key));
  // Whoever had the turn before may have made it.
  UCUDNN_ASSIGN_OR_RETURN(
      again, PlanAgain(key, if_cut_off, asked_ms, &planned.counts));
  if (again != nullptr) return again->plan;
  planned.measure_workspace = context_.options()->measure_workspace;
  UCUDNN_ASSIGN_OR_RETURN(MadePlan plan, MakeOrFindPlan(request, if_cut_off));
  plan_uses_.Note(plan.id, clock_.NowMs());
  planned.plan = plan;
  planned.plan.bytes = nullptr;
  planned.made_ms = clock_.SteadyMs();
  planned.kinds.insert(request.device_kinds.begin(),
                       request.device_kinds.end());
  const std::size_t size = key.size() + sizeof(Planned);
  planned_.Put(std::move(key),
               std::make_shared<const Planned>(std::move(planned)), size);
  return plan;
}

Result<MadePlan> PlanService::MakeOrFindPlan(const JobRequest& request,
                                             IfCutOff if_cut_off) {
  if (!request.step.empty()) return MakeOrFindStepPlan(request, if_cut_off);
  UCUDNN_ASSIGN_OR_RETURN(PlanInputs inputs,
                          LookUp(store_.agents, store_.networks, request));
  UCUDNN_RETURN_IF_ERROR(
      CheckDevices(store_, inputs, /*may_return=*/true, clock_.NowMs()));
  UCUDNN_RETURN_IF_ERROR(CheckQueue(store_.tasks, MeasureOptions(), inputs,
                                    CallerAsks(), clock_.NowMs()));
  // Enqueues what is missing, so that repeating this call is enough.
  UCUDNN_ASSIGN_OR_RETURN(
      const v1::MeasureProgress progress,
      MeasureNeeds(store_, context_.options()->measure_workspace,
                   clock_.NowMs(), MeasureOptions(), CallerAsks(), &inputs));
  UCUDNN_RETURN_IF_ERROR(
      RecordCampaign(store_.campaigns, inputs, progress, clock_.NowMs()));
  if (progress.cancelled() > 0) {
    return Fail(Code::kFailedPrecondition,
                "{} of {} measurements were cancelled {}; `ucudnn plan` and "
                "`ucudnn measure` request them again",
                progress.cancelled(), progress.total(),
                progress.cancelled_why());
  }
  const std::int64_t missing =
      progress.total() - progress.done() - progress.failed();
  if (missing > 0) {
    std::string why;
    for (const std::string& kind : progress.kinds_without_device()) {
      why += fmt::format("; no device of kind '{}' is online", kind);
    }
    return Fail(Code::kAborted,
                "{} of {} measurements are missing and have been requested{}",
                missing, progress.total(), why);
  }
  UCUDNN_RETURN_IF_ERROR(LoadProfiles(store_.measurements, &inputs));
  const KindProfiles& profiles = inputs.profiles;
  UCUDNN_ASSIGN_OR_RETURN(const DeviceModels models,
                          LoadModels(store_.measurements, inputs.Kinds()));
  std::string text = InputsText(inputs.network, inputs.request, profiles);
  if (inputs.request.memory) {
    UCUDNN_RETURN_IF_ERROR(CheckModels(models, inputs.Kinds()));
    text += MemoryInputsText(inputs.record, models);
  } else {
    text += LoadInputsText(models);
    text += PlainInputsText(*inputs.plain, inputs.record);
    if (inputs.concurrency) text += "\n" + ToString(*inputs.concurrency);
  }
  // Only searches for memory plans have a time limit.
  return FindOrMake(
      text, inputs.request.memory.has_value(), if_cut_off,
      [&]() -> Result<JobPlan> {
        UCUDNN_ASSIGN_OR_RETURN(JobPlan plan, [&]() -> Result<JobPlan> {
          if (inputs.plan) return *std::move(inputs.plan);
          if (!inputs.request.memory) {
            return MakePlan(inputs.network, inputs.request, profiles,
                            *inputs.plain, inputs.concurrency, inputs.tasks);
          }
          return MakeMemoryPlans(inputs.record, inputs.request, profiles,
                                 models, context_.options()->memory_plan_time,
                                 inputs.tasks);
        }());
        if (!inputs.request.memory) PredictUnderLoad(models, &plan);
        plan.network_revision = inputs.record.revision;
        if (progress.failed() > 0) {
          plan.reasons.push_back(fmt::format(
              "{} of {} measurements failed; the plan is made from the others",
              progress.failed(), progress.total()));
        }
        UCUDNN_ASSIGN_OR_RETURN(const auto doubts,
                                DoubtsAbout(store_.measurements, inputs.Kinds(),
                                            inputs.Problems()));
        plan.reasons.insert(plan.reasons.end(), doubts.begin(), doubts.end());
        return plan;
      });
}

Result<MadePlan> PlanService::MakeOrFindStepPlan(const JobRequest& request,
                                                 IfCutOff if_cut_off) {
  UCUDNN_ASSIGN_OR_RETURN(JobRequest wanted, Canonical(request));
  UCUDNN_ASSIGN_OR_RETURN(const StepRecord step,
                          store_.steps.GetStep(wanted.step));
  UCUDNN_ASSIGN_OR_RETURN(wanted, WithStepKinds(step, std::move(wanted)));
  return FindOrMake(
      StepInputsText(step, wanted), /*may_be_cut_off=*/true, if_cut_off,
      [&]() -> Result<JobPlan> {
        UCUDNN_ASSIGN_OR_RETURN(
            JobPlan plan,
            MakeStepPlan(step, wanted, context_.options()->memory_plan_time));
        plan.network_revision = step.revision;
        return plan;
      });
}

Result<MadePlan> PlanService::FindOrMake(
    const std::string& inputs, bool may_be_cut_off, IfCutOff if_cut_off,
    const std::function<Result<JobPlan>()>& make) {
  const std::string key = Sha256(inputs);
  UCUDNN_ASSIGN_OR_RETURN(const std::optional<StoredPlan> known,
                          store_.plans.FindPlan(key));
  if (known) return MadePlan{.id = known->id, .predicted = known->predicted};
  CutOffPlans cut_off;
  if (may_be_cut_off) {
    UCUDNN_ASSIGN_OR_RETURN(cut_off, FindCutOff(store_.plans, inputs));
  }
  const auto fastest = [&] {
    return MadePlan{.id = cut_off.fastest->id,
                    .predicted = cut_off.fastest->predicted,
                    .cut_off = true};
  };
  if (cut_off.fastest && if_cut_off == IfCutOff::kTakeIt) return fastest();
  UCUDNN_RETURN_IF_ERROR(Call::Check());
  UCUDNN_ASSIGN_OR_RETURN(JobPlan plan, make());
  if (plan.cut_off && cut_off.fastest &&
      cut_off.fastest->predicted <= plan.predicted) {
    return fastest();
  }
  plan.revision = 1;
  plan.created_ms = clock_.NowMs();
  return Keep(plan, plan.cut_off ? cut_off.next_key : key);
}

Result<MadePlan> PlanService::Keep(const JobPlan& plan,
                                   const std::string& key) {
  const PlanRecord record = RecordOf(plan, key);
  const std::int64_t moment = plans_.Moment();
  UCUDNN_ASSIGN_OR_RETURN(const CreatedPlan created,
                          store_.plans.CreatePlan(record));
  MadePlan made{.id = created.plan.id,
                .predicted = created.plan.predicted,
                .cut_off = plan.cut_off};
  if (created.already) return made;
  made.bytes =
      std::make_shared<const std::string>(WithId(made.id, record.body));
  plans_.Put(made.id, made.bytes, moment);
  return made;
}

Result<std::shared_ptr<const v1::Plan>> PlanService::Outline(std::int64_t id) {
  if (auto known = outlines_.Find(id)) return known;
  UCUDNN_ASSIGN_OR_RETURN(const std::string stored,
                          store_.plans.GetPlanOutline(id));
  UCUDNN_ASSIGN_OR_RETURN(v1::Plan outline, Parse(WithId(id, stored)));
  auto kept = std::make_shared<const v1::Plan>(std::move(outline));
  outlines_.Put(id, kept, kept->SpaceUsedLong());
  return kept;
}

Result<JobPlan> PlanService::OutlineOf(std::int64_t id) {
  plan_uses_.Note(id, clock_.NowMs());
  UCUDNN_ASSIGN_OR_RETURN(const auto outline, Outline(id));
  return FromProto(*outline);
}

Result<v1::ListPlansResponse> PlanService::ListPlans(
    const v1::ListRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(std::int64_t before, OlderThan(request));
  v1::ListPlansResponse response;
  PageBytes bytes;
  UCUDNN_RETURN_IF_ERROR(FillPage(
      request,
      [&](int limit) { return store_.plans.ListPlanIds(limit, before); },
      [&](std::int64_t id) -> Result<bool> {
        before = id;
        const auto outline = Outline(id);
        if (!outline) {
          // Deleted meanwhile.
          if (outline.error().code == Code::kNotFound) return false;
          return tl::unexpected<Error>(outline.error());
        }
        v1::Plan& plan = *response.add_plans();
        plan = **outline;
        plan.clear_ranks();
        return bytes.Fill(plan);
      }));
  return response;
}

Result<PlanBytes> PlanService::BytesOf(std::int64_t id) {
  plan_uses_.Note(id, clock_.NowMs());
  if (PlanBytes known = plans_.Find(id, clock_.SteadyMs())) {
    return known;
  }
  const std::int64_t moment = plans_.Moment();
  UCUDNN_ASSIGN_OR_RETURN(const std::string body, store_.plans.GetPlanBody(id));
  auto bytes = std::make_shared<const std::string>(WithId(id, body));
  plans_.Put(id, bytes, moment);
  return bytes;
}

Result<v1::Plan> PlanService::PlanOf(std::int64_t id) {
  UCUDNN_ASSIGN_OR_RETURN(const PlanBytes bytes, BytesOf(id));
  return Parse(*bytes);
}

Result<PlanBytes> PlanService::GetPlanBytes(const v1::GetRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t id, ParseId(request.id()));
  return BytesOf(id);
}

Result<v1::Plan> PlanService::GetPlan(const v1::GetRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t id, ParseId(request.id()));
  return PlanOf(id);
}

Result<v1::DeleteResponse> PlanService::DeletePlan(
    const v1::DeleteRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t id, ParseId(request.id()));
  UCUDNN_ASSIGN_OR_RETURN(
      v1::DeleteResponse deleted,
      Delete(request, fmt::format("plan {}", id), clock_.NowMs(),
             [&](const ActionRecord& action) {
               return store_.plans.DeletePlan(id, action);
             }));
  plans_.Clear();
  return deleted;
}

Status PlanService::Maintain(const ChangeCounts& counts,
                             std::int64_t counted_ms) {
  plans_.Deleted(counts.deleted_plans, counted_ms);
  const auto used = plan_uses_.Take();
  if (used.empty()) return {};
  Status written = store_.plans.UsePlans(used, clock_.NowMs());
  if (!written) plan_uses_.PutBack(used);
  return written;
}

}  // namespace ucudnn
