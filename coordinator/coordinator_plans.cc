// Plans, and measuring what they are made from.

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "coordinator/content.h"
#include "coordinator/coordinator.h"
#include "coordinator/cross_checking.h"
#include "coordinator/drivers.h"
#include "coordinator/page.h"
#include "coordinator/planning/planner.h"
#include "proto/convert.h"
#include "proto/json.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxTasksPerPlan = 1'000'000;
constexpr int kMaxListedFailures = 5;

// A request for a plan, with all that it names looked up.
struct Inputs {
  JobRequest request;
  Network network;
  std::int64_t network_revision = 0;
  std::vector<Need> needs;

  std::set<std::string> Kinds() const {
    return {request.device_kinds.begin(), request.device_kinds.end()};
  }
};

// The states of the tasks for these needs.
struct Queue {
  std::int64_t total = 0;
  TaskCounts counts;
  std::set<std::string> waiting_kinds;  // those with pending tasks
  bool ended() const { return counts.done + counts.failed == total; }
};

std::vector<TaskKey> KeysOf(const std::vector<Need>& needs) {
  std::vector<TaskKey> keys;
  keys.reserve(needs.size());
  for (const Need& need : needs) {
    keys.push_back({need.kind, need.problem, need.batch, ToString(need.goal)});
  }
  return keys;
}

std::vector<NewTask> TasksOf(const std::vector<Need>& needs,
                             Bytes max_workspace) {
  std::vector<NewTask> tasks;
  tasks.reserve(needs.size());
  for (const Need& need : needs) {
    tasks.push_back({{need.kind, need.problem, need.batch, ToString(need.goal)},
                     need.goal.limit.value_or(max_workspace),
                     0});
  }
  return tasks;
}

// The only kind of the devices online, for requests that name none.
Result<std::string> OnlyKind(Agents& agents) {
  UCUDNN_ASSIGN_OR_RETURN(const auto kinds, agents.ListKinds());
  std::vector<std::string> usable;
  for (const KindSummary& kind : kinds) {
    if (kind.usable > 0) usable.push_back(ToString(kind.kind));
  }
  // The answer does not change while the only agent is away.
  if (usable.empty() && kinds.size() == 1) return ToString(kinds[0].kind);
  if (usable.size() == 1) return usable[0];
  if (usable.empty()) {
    return Fail(Code::kFailedPrecondition,
                "no device is online; start ucudnn-agent on a node, or name "
                "device_kinds");
  }
  return Fail(
      Code::kInvalidArgument,
      "the cluster has several kinds of devices; name device_kinds, out "
      "of {}",
      fmt::join(usable, ", "));
}

Result<Inputs> LookUp(Agents& agents, Plans& plans,
                      const v1::PlanRequest& request) {
  Inputs inputs;
  UCUDNN_ASSIGN_OR_RETURN(inputs.request, ParsePlanRequest(request));
  std::vector<std::string>& kinds = inputs.request.device_kinds;
  if (kinds.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(std::string kind, OnlyKind(agents));
    kinds.push_back(std::move(kind));
  }
  UCUDNN_ASSIGN_OR_RETURN(const NetworkRecord record,
                          plans.GetNetwork(inputs.request.network));
  UCUDNN_ASSIGN_OR_RETURN(const v1::Network network, ToProto(record));
  UCUDNN_ASSIGN_OR_RETURN(inputs.network, FromProto(network));
  inputs.network_revision = record.revision;
  inputs.needs = NeedsOf(inputs.network, inputs.request);
  if (inputs.needs.size() > kMaxTasksPerPlan) {
    return Fail(Code::kInvalidArgument,
                "the plan needs {} measurements; up to {} are accepted: take a "
                "smaller batch or the policy adaptive",
                inputs.needs.size(), kMaxTasksPerPlan);
  }
  return inputs;
}

// The points that the plan is made from.
Result<KindProfiles> LoadProfiles(Agents& agents, Measurements& measurements,
                                  const Inputs& inputs) {
  std::set<std::string> problems;
  std::set<BatchSize> sizes;
  for (const Need& need : inputs.needs) {
    problems.insert(need.problem);
    sizes.insert(need.batch);
  }
  const std::vector<std::string> names(problems.begin(), problems.end());
  std::vector<BatchSize> batches(sizes.begin(), sizes.end());
  // Adaptive measuring chooses the batches itself.
  if (inputs.request.policy == BatchPolicy::kAdaptive) batches.clear();
  KindProfiles profiles;
  for (const std::string& kind : inputs.Kinds()) {
    UCUDNN_ASSIGN_OR_RETURN(const auto drivers, DriversOf(agents, kind));
    UCUDNN_ASSIGN_OR_RETURN(profiles[kind], measurements.LoadProfile(
                                                kind, names, batches, drivers));
  }
  return profiles;
}

Result<Queue> Look(Tasks& tasks, const Inputs& inputs) {
  UCUDNN_ASSIGN_OR_RETURN(const auto counts,
                          tasks.Progress(KeysOf(inputs.needs)));
  Queue queue;
  queue.total = static_cast<std::int64_t>(inputs.needs.size());
  for (const auto& [kind, count] : counts) {
    queue.counts.done += count.done;
    queue.counts.leased += count.leased;
    queue.counts.failed += count.failed;
    queue.counts.pending += count.pending;
    if (count.pending > 0) queue.waiting_kinds.insert(kind);
  }
  return queue;
}

// While all needs are measured, adds the batches that the plan would give to
// ranks. On return, the plan can be made from the needs, or some of them are
// not measured yet.
Result<Queue> Refine(Agents& agents, Tasks& tasks, Measurements& measurements,
                     Inputs* inputs) {
  std::set<KindBatch> chosen;
  while (true) {
    UCUDNN_ASSIGN_OR_RETURN(const Queue queue, Look(tasks, *inputs));
    if (!queue.ended()) return queue;
    UCUDNN_ASSIGN_OR_RETURN(const KindProfiles profiles,
                            LoadProfiles(agents, measurements, *inputs));
    const auto plan = MakePlan(inputs->network, inputs->request, profiles);
    // CreatePlan meets the same error and returns it.
    if (!plan) return queue;
    for (const RankPlan& rank : plan->ranks) {
      chosen.emplace(rank.device_kind, rank.batch);
    }
    std::vector<Need> needs = NeedsOf(inputs->network, inputs->request, chosen);
    if (needs.size() == inputs->needs.size()) return queue;
    inputs->needs = std::move(needs);
  }
}

// Enqueues the tasks for the needs, with a cap of `max_workspace` or the
// request's larger limit. Returns how many are new or open again.
Result<std::int64_t> Enqueue(Agents& agents, Tasks& tasks, const Inputs& inputs,
                             Bytes max_workspace, UnixMillis now_ms) {
  const Bytes cap = std::max(max_workspace, inputs.request.KernelLimit());
  UCUDNN_ASSIGN_OR_RETURN(
      const EnqueueResult enqueued,
      tasks.EnqueueTasks(TasksOf(inputs.needs, cap), now_ms));
  std::int64_t stale = 0;
  const std::vector<TaskKey> keys = KeysOf(inputs.needs);
  for (const std::string& kind : inputs.Kinds()) {
    UCUDNN_ASSIGN_OR_RETURN(const auto drivers, DriversOf(agents, kind));
    if (drivers.empty()) continue;
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t reopened,
                            tasks.ReopenStaleTasks(kind, keys, drivers));
    stale += reopened;
  }
  return enqueued.added + enqueued.reopened + stale;
}

// Enqueues what is missing, unless it is a dry run, and tells how far the
// measurements are. Adds to the needs as Refine does.
Result<v1::MeasureProgress> MeasureFor(Store& store, Bytes max_workspace,
                                       UnixMillis now_ms,
                                       const v1::MeasureRequest& request,
                                       Inputs* inputs) {
  const auto enqueue = [&] {
    return Enqueue(store, store, *inputs, max_workspace, now_ms);
  };
  v1::MeasureProgress progress;
  if (request.retry_failed()) {
    for (const std::string& kind : inputs->Kinds()) {
      UCUDNN_RETURN_IF_ERROR(store.RetryFailedTasks(kind));
    }
  }
  if (!request.dry_run()) {
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t added, enqueue());
    progress.set_enqueued(added);
  }
  const std::size_t known = inputs->needs.size();
  UCUDNN_ASSIGN_OR_RETURN(Queue queue, Refine(store, store, store, inputs));
  if (!request.dry_run() && inputs->needs.size() > known) {
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t added, enqueue());
    progress.set_enqueued(progress.enqueued() + added);
    UCUDNN_ASSIGN_OR_RETURN(queue, Look(store, *inputs));
  }
  progress.set_total(queue.total);
  progress.set_done(queue.counts.done);
  progress.set_running(queue.counts.leased);
  progress.set_failed(queue.counts.failed);
  progress.set_unasked(queue.total - queue.counts.done - queue.counts.leased -
                       queue.counts.failed - queue.counts.pending);
  if (!queue.waiting_kinds.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(const auto kinds, store.ListKinds());
    for (const KindSummary& kind : kinds) {
      if (kind.usable > 0) queue.waiting_kinds.erase(ToString(kind.kind));
    }
  }
  for (const std::string& kind : queue.waiting_kinds) {
    progress.add_kinds_without_device(kind);
  }
  if (progress.failed() > 0) {
    const std::vector<TaskKey> keys = KeysOf(inputs->needs);
    const std::set<TaskKey> wanted(keys.begin(), keys.end());
    UCUDNN_ASSIGN_OR_RETURN(
        const auto failed,
        store.ListTasks({.kind = "", .state = TaskState::kFailed}));
    for (const TaskRecord& task : failed) {
      if (progress.failures_size() == kMaxListedFailures) break;
      if (!wanted.contains(task.key)) continue;
      progress.add_failures(
          fmt::format("{} batch {} on {}: {}", task.key.problem,
                      task.key.batch.count(), task.key.kind, task.error));
    }
  }
  return progress;
}

}  // namespace

Result<v1::Plan> ToProto(const PlanRecord& record) {
  v1::Plan plan;
  if (const Status read =
          FromJson(Json::parse(record.body, nullptr, false), &plan);
      !read) {
    return Fail(Code::kDataLoss, "plan {} cannot be read back: {}", record.id,
                read.error().message);
  }
  plan.set_id(record.id);
  plan.set_created_ms(record.created_ms);
  return plan;
}

Result<v1::MeasureProgress> Coordinator::Measure(
    const v1::MeasureRequest& request) {
  v1::PlanRequest wanted = request.plan();
  if (request.has_replan()) {
    std::string change;
    UCUDNN_ASSIGN_OR_RETURN(wanted, Replanned(request.replan(), &change));
  }
  std::optional<SingleFlight::Turn> turn;
  if (!request.dry_run()) turn.emplace(planning_, wanted.SerializeAsString());
  UCUDNN_ASSIGN_OR_RETURN(Inputs inputs, LookUp(store_, store_, wanted));
  return MeasureFor(store_, options_.measure_workspace, clock_.NowMs(), request,
                    &inputs);
}

Result<v1::Plan> Coordinator::CreatePlan(const v1::PlanRequest& request) {
  const SingleFlight::Turn turn(planning_, request.SerializeAsString());
  UCUDNN_ASSIGN_OR_RETURN(Inputs inputs, LookUp(store_, store_, request));
  // Enqueues what is missing, so that repeating this call is enough.
  UCUDNN_ASSIGN_OR_RETURN(
      const v1::MeasureProgress progress,
      MeasureFor(store_, options_.measure_workspace, clock_.NowMs(),
                 v1::MeasureRequest(), &inputs));
  const std::int64_t missing =
      progress.total() - progress.done() - progress.failed();
  if (missing > 0) {
    std::string why;
    for (const std::string& kind : progress.kinds_without_device()) {
      why += fmt::format("; no device of kind '{}' is online", kind);
    }
    return Fail(Code::kUnavailable,
                "{} of {} measurements are missing and have been asked for{}",
                missing, progress.total(), why);
  }
  UCUDNN_ASSIGN_OR_RETURN(const KindProfiles profiles,
                          LoadProfiles(store_, store_, inputs));
  const std::string key =
      Sha256(InputsText(inputs.network, inputs.request, profiles));
  UCUDNN_ASSIGN_OR_RETURN(const std::optional<PlanRecord> known,
                          store_.FindPlan(key));
  if (known) return ToProto(*known);
  UCUDNN_ASSIGN_OR_RETURN(JobPlan plan,
                          MakePlan(inputs.network, inputs.request, profiles));
  plan.revision = 1;
  plan.network_revision = inputs.network_revision;
  if (progress.failed() > 0) {
    plan.reasons.push_back(fmt::format(
        "{} of {} measurements failed; the plan is made from the others",
        progress.failed(), progress.total()));
  }
  std::set<std::string> problems;
  for (const Need& need : inputs.needs) problems.insert(need.problem);
  UCUDNN_ASSIGN_OR_RETURN(const auto doubts,
                          DoubtsAbout(store_, inputs.Kinds(), problems));
  plan.reasons.insert(plan.reasons.end(), doubts.begin(), doubts.end());
  PlanRecord record;
  record.key = key;
  record.revision = plan.revision;
  record.request = ToJson(ToProto(plan.request)).dump();
  record.body = ToJson(ToProto(plan)).dump();
  record.created_ms = clock_.NowMs();
  UCUDNN_ASSIGN_OR_RETURN(const CreatedPlan created, store_.CreatePlan(record));
  return ToProto(created.plan);
}

Result<v1::ListPlansResponse> Coordinator::ListPlans(
    const v1::ListRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(const int size, PageSize(request));
  std::int64_t before = 0;
  if (!request.after().empty()) {
    // Plans are listed newest first, so what comes after an id is older.
    Result<std::int64_t> id =
        ParseInteger(request.after(), 1, std::int64_t{1} << 62);
    if (!id) return Within("after", id.error());
    before = *id;
  }
  UCUDNN_ASSIGN_OR_RETURN(const auto plans, store_.ListPlans(size, before));
  v1::ListPlansResponse response;
  for (const PlanRecord& record : plans) {
    UCUDNN_ASSIGN_OR_RETURN(v1::Plan plan, ToProto(record));
    plan.clear_ranks();
    *response.add_plans() = std::move(plan);
  }
  return response;
}

Result<v1::Plan> Coordinator::GetPlan(const v1::GetRequest& request) {
  const Result<std::int64_t> id =
      ParseInteger(request.id(), 1, std::int64_t{1} << 62);
  if (!id) return Within("plan id", id.error());
  UCUDNN_ASSIGN_OR_RETURN(const PlanRecord plan, store_.GetPlan(*id));
  return ToProto(plan);
}

Result<v1::StatusResponse> Coordinator::GetStatus(
    const v1::StatusRequest& /*request*/) {
  v1::StatusResponse response;
  response.set_version(options_.version);
  response.set_database(options_.database);
  UCUDNN_ASSIGN_OR_RETURN(const std::int64_t schema, store_.SchemaVersion());
  response.set_schema_version(schema);
  UCUDNN_ASSIGN_OR_RETURN(const auto agents, store_.ListAgents());
  response.set_agents_online(std::count_if(
      agents.begin(), agents.end(),
      [](const AgentRecord& a) { return a.state == AgentState::kOnline; }));
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, store_.ListDevices(""));
  response.set_devices_online(std::count_if(
      devices.begin(), devices.end(),
      [](const DeviceRecord& d) { return d.state != DeviceState::kLost; }));
  UCUDNN_ASSIGN_OR_RETURN(const auto networks, store_.ListNetworks());
  response.set_networks(static_cast<std::int64_t>(networks.size()));
  UCUDNN_ASSIGN_OR_RETURN(const auto counts, store_.CountTasks());
  for (const auto& [kind, count] : counts) {
    response.set_tasks_pending(response.tasks_pending() + count.pending);
    response.set_tasks_running(response.tasks_running() + count.leased);
    response.set_tasks_done(response.tasks_done() + count.done);
    response.set_tasks_failed(response.tasks_failed() + count.failed);
  }
  return response;
}

Status Coordinator::Ready() { return store_.Ping(); }

}  // namespace ucudnn
