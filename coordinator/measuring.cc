#include "coordinator/measuring.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "base/service/call.h"
#include "coordinator/content.h"
#include "coordinator/drivers.h"
#include "coordinator/limits.h"
#include "coordinator/planning/memory_planner.h"
#include "proto/convert.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

constexpr int kMaxListedFailures = 5;

// The states of the tasks for these needs.
struct Queue {
  struct OfKind {
    std::int64_t total = 0;
    TaskCounts counts;
    std::int64_t missing() const { return total - counts.done - counts.failed; }
  };
  std::int64_t total = 0;
  TaskCounts counts;
  std::map<std::string, OfKind> kinds;
  bool ended() const { return counts.done + counts.failed == total; }
};

std::vector<NewTask> TasksOf(std::span<const Need> needs, Bytes max_workspace) {
  std::vector<NewTask> tasks;
  tasks.reserve(needs.size());
  for (const Need& need : needs) {
    tasks.push_back({{need.kind, need.problem, need.batch, ToString(need.goal)},
                     need.goal.limit.value_or(max_workspace),
                     0});
  }
  return tasks;
}

// Calls `body` with consecutive pieces of the needs, each for one transaction,
// so that others write in between. Errors of `body`, and of Call::Check before
// each: a repeat goes on where this one ended.
template <class Body>
Status InPieces(std::span<const Need> needs, const Body& body) {
  while (!needs.empty()) {
    UCUDNN_RETURN_IF_ERROR(Call::Check());
    const auto piece = needs.first(std::min(needs.size(), kTasksAtOnce));
    UCUDNN_RETURN_IF_ERROR(body(piece));
    needs = needs.subspan(piece.size());
  }
  return {};
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

Result<Queue> Look(Tasks& tasks, const PlanInputs& inputs, UnixMillis now_ms) {
  Queue queue;
  queue.total = static_cast<std::int64_t>(inputs.needs.size());
  for (const Need& need : inputs.needs) ++queue.kinds[need.kind].total;
  UCUDNN_RETURN_IF_ERROR(
      InPieces(inputs.needs, [&](std::span<const Need> piece) -> Status {
        UCUDNN_ASSIGN_OR_RETURN(const auto counts,
                                tasks.Progress(KeysOf(piece), now_ms));
        for (const auto& [kind, count] : counts) {
          queue.counts += count;
          queue.kinds[kind].counts += count;
        }
        return {};
      }));
  return queue;
}

// While all needs are measured, adds the batches that the plan would give to
// ranks. On return, the plan can be made from the needs, or some of them are
// not measured yet.
Result<Queue> Refine(Agents& agents, Tasks& tasks, Measurements& measurements,
                     UnixMillis now_ms, PlanInputs* inputs) {
  std::set<KindBatch> chosen;
  while (true) {
    UCUDNN_ASSIGN_OR_RETURN(const Queue queue, Look(tasks, *inputs, now_ms));
    // Memory plans are made for even shares, which are among the needs.
    if (!queue.ended() || inputs->request.memory) return queue;
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
Result<std::int64_t> Enqueue(Agents& agents, Tasks& tasks,
                             const PlanInputs& inputs, Bytes max_workspace,
                             UnixMillis now_ms) {
  const Bytes cap = std::max(max_workspace, inputs.request.KernelLimit());
  std::map<std::string, std::vector<std::string>> drivers;
  for (const std::string& kind : inputs.Kinds()) {
    UCUDNN_ASSIGN_OR_RETURN(drivers[kind], DriversOf(agents, kind));
  }
  std::int64_t opened = 0;
  UCUDNN_RETURN_IF_ERROR(
      InPieces(inputs.needs, [&](std::span<const Need> piece) -> Status {
        UCUDNN_ASSIGN_OR_RETURN(
            const EnqueueResult enqueued,
            tasks.EnqueueTasks(TasksOf(piece, cap), now_ms));
        opened += enqueued.added + enqueued.reopened;
        const std::vector<TaskKey> keys = KeysOf(piece);
        for (const auto& [kind, current] : drivers) {
          if (current.empty()) continue;
          UCUDNN_ASSIGN_OR_RETURN(const std::int64_t reopened,
                                  tasks.ReopenStaleTasks(kind, keys, current));
          opened += reopened;
        }
        return {};
      }));
  return opened;
}

// How many devices of each kind are online and take tasks, for the kinds that
// any device ever had.
Result<std::map<std::string, std::int64_t>> UsableDevices(Agents& agents) {
  UCUDNN_ASSIGN_OR_RETURN(const auto kinds, agents.ListKinds());
  std::map<std::string, std::int64_t> usable;
  for (const KindSummary& kind : kinds) {
    usable[ToString(kind.kind)] = kind.usable;
  }
  return usable;
}

// Says why tasks failed or were cancelled.
Status AddReasons(Tasks& tasks, const PlanInputs& inputs,
                  v1::MeasureProgress* progress) {
  if (progress->failed() == 0 && progress->cancelled() == 0) return {};
  return InPieces(inputs.needs, [&](std::span<const Need> piece) -> Status {
    if ((progress->failed() == progress->failures_size() ||
         progress->failures_size() == kMaxListedFailures) &&
        (progress->cancelled() == 0 || !progress->cancelled_why().empty())) {
      return {};
    }
    UCUDNN_ASSIGN_OR_RETURN(const auto found, tasks.FindTasks(KeysOf(piece)));
    for (const TaskRecord& task : found) {
      if (task.state == TaskState::kCancelled) {
        progress->set_cancelled_why(task.error);
      }
      if (task.state != TaskState::kFailed ||
          progress->failures_size() == kMaxListedFailures) {
        continue;
      }
      progress->add_failures(
          fmt::format("{} batch {} on {}: {}", task.key.problem,
                      task.key.batch.count(), task.key.kind, task.error));
    }
    return {};
  });
}

}  // namespace

std::vector<TaskKey> KeysOf(std::span<const Need> needs) {
  std::vector<TaskKey> keys;
  keys.reserve(needs.size());
  for (const Need& need : needs) {
    keys.push_back({need.kind, need.problem, need.batch, ToString(need.goal)});
  }
  return keys;
}

Status CheckDevices(Store& store, const PlanInputs& inputs, bool may_return,
                    UnixMillis now_ms) {
  UCUDNN_ASSIGN_OR_RETURN(const auto usable, UsableDevices(store));
  std::set<std::string> without;
  for (const std::string& kind : inputs.Kinds()) {
    const auto found = usable.find(kind);
    const bool has_device =
        found != usable.end() && (may_return || found->second > 0);
    if (!has_device) without.insert(kind);
  }
  if (without.empty()) return {};
  UCUDNN_ASSIGN_OR_RETURN(const Queue queue, Look(store, inputs, now_ms));
  for (const std::string& kind : without) {
    const auto of_kind = queue.kinds.find(kind);
    if (of_kind == queue.kinds.end() || of_kind->second.missing() == 0) {
      continue;
    }
    return Fail(Code::kFailedPrecondition,
                "no device {} kind '{}'{}, and {} measurements of it are "
                "missing: start ucudnn-agent on a node that has one, or ask "
                "with wait_for_device (--wait-for-device)",
                may_return ? "was ever of" : "that takes tasks is of", kind,
                usable.contains(kind) || may_return ? "" : ", nor ever was",
                of_kind->second.missing());
  }
  return {};
}

Status CheckQueue(Tasks& tasks, const v1::MeasureRequest& request,
                  const PlanInputs& inputs, std::int64_t max_queued,
                  UnixMillis now_ms) {
  UCUDNN_ASSIGN_OR_RETURN(const auto kinds, tasks.CountTasks(now_ms));
  std::int64_t queued = 0;
  for (const auto& [kind, counts] : kinds) {
    queued += counts.pending + counts.leased;
  }
  // Looking which of them are there already takes longer.
  if (queued + std::ssize(inputs.needs) <= max_queued) return {};
  UCUDNN_ASSIGN_OR_RETURN(const Queue queue, Look(tasks, inputs, now_ms));
  std::int64_t added = queue.total - queue.counts.total();
  if (request.retry_failed()) added += queue.counts.failed;
  if (request.retry_cancelled()) added += queue.counts.cancelled;
  if (added == 0 || queued + added <= max_queued) return {};
  return Fail(Code::kResourceExhausted,
              "{} measurements would be requested and {} are queued already; "
              "up to {} may be queued at once (max-queued-measurements of the "
              "coordinator)",
              added, queued, max_queued);
}

std::set<std::string> PlanInputs::Kinds() const {
  return {request.device_kinds.begin(), request.device_kinds.end()};
}

std::set<std::string> PlanInputs::Problems() const {
  std::set<std::string> problems;
  for (const Need& need : needs) problems.insert(need.problem);
  return problems;
}

Result<PlanInputs> LookUp(Agents& agents, Plans& plans,
                          const v1::PlanRequest& request,
                          std::optional<std::int64_t> network_revision) {
  PlanInputs inputs;
  UCUDNN_ASSIGN_OR_RETURN(inputs.request, ParsePlanRequest(request));
  std::vector<std::string>& kinds = inputs.request.device_kinds;
  if (kinds.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(std::string kind, OnlyKind(agents));
    kinds.push_back(std::move(kind));
  }
  if (inputs.request.memory) {
    UCUDNN_RETURN_IF_ERROR(CheckMemoryRequest(inputs.request));
  }
  UCUDNN_ASSIGN_OR_RETURN(
      inputs.record,
      plans.GetNetwork(inputs.request.network, network_revision));
  UCUDNN_ASSIGN_OR_RETURN(const v1::Network network, ToProto(inputs.record));
  UCUDNN_ASSIGN_OR_RETURN(inputs.network, FromProto(network));
  if (inputs.Kinds().size() > kMaxKindsPerPlan) {
    return Fail(Code::kInvalidArgument,
                "device_kinds names {} kinds; up to {} are accepted",
                inputs.Kinds().size(), kMaxKindsPerPlan);
  }
  const std::int64_t count = NeedCount(inputs.network, inputs.request);
  if (count > kMaxTasksPerPlan) {
    return Fail(Code::kInvalidArgument,
                "the plan needs {} measurements; up to {} are accepted: take a "
                "smaller batch or the policy adaptive",
                count, kMaxTasksPerPlan);
  }
  inputs.needs = NeedsOf(inputs.network, inputs.request);
  return inputs;
}

Result<KindProfiles> LoadProfiles(Agents& agents, Measurements& measurements,
                                  const PlanInputs& inputs) {
  const std::set<std::string> problems = inputs.Problems();
  std::set<BatchSize> sizes;
  for (const Need& need : inputs.needs) sizes.insert(need.batch);
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

Result<v1::MeasureProgress> MeasureNeeds(Store& store, Bytes max_workspace,
                                         UnixMillis now_ms,
                                         const v1::MeasureRequest& request,
                                         PlanInputs* inputs) {
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
    UCUDNN_ASSIGN_OR_RETURN(std::int64_t added, enqueue());
    if (request.retry_cancelled()) {
      UCUDNN_RETURN_IF_ERROR(
          InPieces(inputs->needs, [&](std::span<const Need> piece) -> Status {
            UCUDNN_ASSIGN_OR_RETURN(const std::int64_t reopened,
                                    store.ReopenCancelledTasks(KeysOf(piece)));
            added += reopened;
            return {};
          }));
    }
    progress.set_enqueued(added);
  }
  const std::size_t known = inputs->needs.size();
  UCUDNN_ASSIGN_OR_RETURN(Queue queue,
                          Refine(store, store, store, now_ms, inputs));
  if (!request.dry_run() && inputs->needs.size() > known) {
    UCUDNN_ASSIGN_OR_RETURN(const std::int64_t added, enqueue());
    progress.set_enqueued(progress.enqueued() + added);
    UCUDNN_ASSIGN_OR_RETURN(queue, Look(store, *inputs, now_ms));
  }
  progress.set_total(queue.total);
  progress.set_done(queue.counts.done);
  progress.set_running(queue.counts.leased);
  progress.set_failed(queue.counts.failed);
  progress.set_cancelled(queue.counts.cancelled);
  progress.set_unasked(queue.total - queue.counts.total());
  UCUDNN_ASSIGN_OR_RETURN(const auto usable, UsableDevices(store));
  for (const auto& [kind, of_kind] : queue.kinds) {
    const auto found = usable.find(kind);
    v1::KindProgress& added = *progress.add_kinds();
    added.set_kind(kind);
    added.set_total(of_kind.total);
    added.set_missing(of_kind.missing());
    added.set_pending(of_kind.counts.pending);
    added.set_devices(found == usable.end() ? 0 : found->second);
    if (of_kind.counts.pending > 0 && added.devices() == 0) {
      progress.add_kinds_without_device(kind);
    }
  }
  UCUDNN_RETURN_IF_ERROR(AddReasons(store, *inputs, &progress));
  return progress;
}

}  // namespace ucudnn
