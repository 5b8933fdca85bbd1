#include "coordinator/measuring/measuring.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <utility>

#include "base/service/call.h"
#include "coordinator/limits.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

constexpr int kMaxListedFailures = 5;

// The states of the tasks for some needs.
struct Queue {
  struct OfKind {
    std::int64_t total = 0;
    TaskCounts counts;
    std::int64_t missing() const { return total - counts.done - counts.failed; }
  };
  std::int64_t total = 0;
  TaskCounts counts;
  std::map<std::string, OfKind> kinds;
  std::int64_t opened = 0;  // how many were enqueued or are open again
  bool ended() const { return counts.done + counts.failed == total; }
};

// How tasks are asked for.
struct Asking {
  bool enqueue = false;  // what is missing
  bool retry_cancelled = false;
  Asker asker = {};
  Bytes max_workspace = {};  // of needs without a limit of their own
  UnixMillis now_ms = 0;
};

TaskKey TaskKeyOf(const Need& need) {
  return {need.kind, need.problem, need.batch, ToString(need.goal)};
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

// As one task in its state; a lease that has expired does not count.
TaskCounts CountOf(const TaskRecord& task, UnixMillis now_ms) {
  switch (task.state) {
    case TaskState::kPending:
      return {.pending = 1};
    case TaskState::kLeased:
      return task.lease_until_ms > now_ms ? TaskCounts{.leased = 1}
                                          : TaskCounts{.pending = 1};
    case TaskState::kDone:
      return {.done = 1};
    case TaskState::kFailed:
      return {.failed = 1};
    case TaskState::kCancelled:
      return {.cancelled = 1};
  }
  UCUDNN_CHECK(false);
}

// Whether the task was done under none of the drivers, if any is known.
bool DoneUnderOtherDriver(const TaskRecord& task,
                          const std::vector<std::string>& drivers) {
  return task.state == TaskState::kDone && !task.driver.empty() &&
         !drivers.empty() &&
         std::ranges::find(drivers, task.driver) == drivers.end();
}

// Enqueues those of the needs that have no task, or one under a smaller cap or
// a driver of the past. Returns how many are new or open again.
Result<std::int64_t> Enqueue(TaskStore& tasks, const PlanInputs& inputs,
                             const Asking& asking, std::span<const Need> needs,
                             const std::map<TaskKey, TaskRecord>& known) {
  std::vector<NewTask> wanted;
  std::map<std::string, std::vector<TaskKey>> stale;  // by kind
  for (const Need& need : needs) {
    NewTask task{
        .key = TaskKeyOf(need),
        .max_workspace = need.goal.limit.value_or(asking.max_workspace)};
    const auto found = known.find(task.key);
    if (found != known.end() &&
        DoneUnderOtherDriver(found->second, inputs.drivers.at(need.kind))) {
      stale[need.kind].push_back(task.key);
    }
    if (found == known.end() ||
        found->second.max_workspace < task.max_workspace) {
      wanted.push_back(std::move(task));
    }
  }
  std::int64_t opened = 0;
  if (!wanted.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(
        const EnqueueResult enqueued,
        tasks.EnqueueTasks(wanted, asking.asker, asking.now_ms));
    opened += enqueued.added + enqueued.reopened;
  }
  for (const auto& [kind, keys] : stale) {
    UCUDNN_ASSIGN_OR_RETURN(
        const std::int64_t reopened,
        tasks.ReopenStaleTasks(kind, keys, inputs.drivers.at(kind),
                               asking.asker));
    opened += reopened;
  }
  return opened;
}

Result<std::map<TaskKey, TaskRecord>> FindByKey(TaskStore& tasks,
                                                std::span<const Need> needs) {
  UCUDNN_ASSIGN_OR_RETURN(std::vector<TaskRecord> found,
                          tasks.FindTasks(KeysOf(needs)));
  std::map<TaskKey, TaskRecord> by_key;
  for (TaskRecord& task : found) by_key.emplace(task.key, std::move(task));
  return by_key;
}

// Looks up the tasks for the needs, some of those of `inputs`, and adds their
// states to the queue; enqueues what is missing first, if asked to.
Status Look(TaskStore& tasks, const PlanInputs& inputs, const Asking& asking,
            std::span<const Need> needs, Queue* queue) {
  return InPieces(needs, [&](std::span<const Need> piece) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(auto known, FindByKey(tasks, piece));
    std::int64_t opened = 0;
    if (asking.enqueue) {
      UCUDNN_ASSIGN_OR_RETURN(opened,
                              Enqueue(tasks, inputs, asking, piece, known));
    }
    if (asking.retry_cancelled) {
      UCUDNN_ASSIGN_OR_RETURN(
          const std::int64_t reopened,
          tasks.ReopenCancelledTasks(KeysOf(piece), asking.asker));
      opened += reopened;
    }
    if (opened > 0) {
      UCUDNN_ASSIGN_OR_RETURN(known, FindByKey(tasks, piece));
    }
    queue->opened += opened;
    queue->total += std::ssize(piece);
    for (const Need& need : piece) ++queue->kinds[need.kind].total;
    for (const auto& [key, task] : known) {
      const TaskCounts one = CountOf(task, asking.now_ms);
      queue->counts += one;
      queue->kinds[key.kind].counts += one;
    }
    return {};
  });
}

// While all needs are measured, adds the batches that the plan would give to
// ranks. On return, the plan can be made from the needs, or some of them are
// not measured yet.
Status Refine(Store& store, const Asking& asking, PlanInputs* inputs,
              Queue* queue) {
  std::set<KindBatch> chosen;
  // Memory plans take what is measured of the shares that they may give, and
  // divide convolutions for the others.
  while (queue->ended() && !inputs->request.memory) {
    UCUDNN_RETURN_IF_ERROR(LoadProfiles(store.measurements, inputs));
    auto plan = MakePlan(inputs->network, inputs->request, inputs->profiles,
                         *inputs->plain, inputs->concurrency, inputs->tasks);
    // CreatePlan meets the same error and returns it.
    if (!plan) return {};
    for (const RankPlan& rank : plan->ranks) {
      chosen.emplace(rank.device_kind, rank.batch);
    }
    std::vector<Need> needs = inputs->NeedsWith(chosen);
    if (needs.size() == inputs->needs.size()) {
      inputs->plan = *std::move(plan);
      return {};
    }
    std::set<KindBatch> known;
    const auto is_conv = [&](const Need& need) {
      return need.problem != inputs->tasks.problem;
    };
    for (const Need& need : inputs->needs) {
      if (is_conv(need)) known.emplace(need.kind, need.batch);
    }
    std::vector<Need> added;
    for (const Need& need : needs) {
      if (is_conv(need) && !known.contains({need.kind, need.batch})) {
        added.push_back(need);
      }
    }
    inputs->needs = std::move(needs);
    UCUDNN_RETURN_IF_ERROR(Look(store.tasks, *inputs, asking, added, queue));
  }
  return {};
}

// How many devices of each kind are online and take tasks, for the kinds that
// any device ever had.
Result<std::map<std::string, std::int64_t>> UsableDevices(AgentStore& agents) {
  UCUDNN_ASSIGN_OR_RETURN(const auto kinds, agents.ListKinds());
  std::map<std::string, std::int64_t> usable;
  for (const KindSummary& kind : kinds) {
    usable[ToString(kind.kind)] = kind.usable;
  }
  return usable;
}

// Says why tasks failed or were cancelled.
Status AddReasons(TaskStore& tasks, const PlanInputs& inputs,
                  v1::MeasureProgress* progress) {
  if (progress->failed() == 0 && progress->cancelled() == 0) return {};
  auto& failures = *progress->mutable_failures();
  return InPieces(inputs.needs, [&](std::span<const Need> piece) -> Status {
    if ((progress->failed() == failures.size() ||
         failures.size() == kMaxListedFailures) &&
        (progress->cancelled() == 0 || !progress->cancelled_why().empty())) {
      return {};
    }
    UCUDNN_ASSIGN_OR_RETURN(const auto found, tasks.FindTasks(KeysOf(piece)));
    for (const TaskRecord& task : found) {
      if (task.state == TaskState::kCancelled) {
        progress->set_cancelled_why(task.error);
      }
      if (task.state != TaskState::kFailed ||
          failures.size() == kMaxListedFailures) {
        continue;
      }
      *failures.Add() =
          fmt::format("{} batch {} on {}: {}", task.key.problem,
                      task.key.batch.count(), task.key.kind, task.error);
    }
    return {};
  });
}

}  // namespace

std::vector<TaskKey> KeysOf(std::span<const Need> needs) {
  std::vector<TaskKey> keys;
  keys.reserve(needs.size());
  for (const Need& need : needs) keys.push_back(TaskKeyOf(need));
  return keys;
}

Status CheckDevices(Store& store, const PlanInputs& inputs, bool may_return,
                    UnixMillis now_ms) {
  UCUDNN_ASSIGN_OR_RETURN(const auto usable, UsableDevices(store.agents));
  std::set<std::string> without;
  for (const std::string& kind : inputs.Kinds()) {
    const auto found = usable.find(kind);
    const bool has_device =
        found != usable.end() && (may_return || found->second > 0);
    if (!has_device) without.insert(kind);
  }
  if (without.empty()) return {};
  Queue queue;
  UCUDNN_RETURN_IF_ERROR(
      Look(store.tasks, inputs, {.now_ms = now_ms}, inputs.needs, &queue));
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

Status CheckQueue(TaskStore& tasks, const MeasureOptions& options,
                  const PlanInputs& inputs, const Asker& asker,
                  UnixMillis now_ms) {
  UCUDNN_ASSIGN_OR_RETURN(const OpenTasks open,
                          tasks.CountOpenTasks(asker.caller));
  std::int64_t failed = 0;  // of any request for the kinds
  if (options.retry_failed) {
    UCUDNN_ASSIGN_OR_RETURN(auto kinds, tasks.CountTasks(now_ms));
    for (const std::string& kind : inputs.Kinds()) failed += kinds[kind].failed;
  }
  // Looking which of the needs are there already takes longer.
  if (CheckOpen(asker, open, std::ssize(inputs.needs) + failed)) return {};
  Queue queue;
  UCUDNN_RETURN_IF_ERROR(
      Look(tasks, inputs, {.now_ms = now_ms}, inputs.needs, &queue));
  std::int64_t added = queue.total - queue.counts.total() + failed;
  if (options.retry_cancelled) added += queue.counts.cancelled;
  return added == 0 ? Status() : CheckOpen(asker, open, added);
}

Result<v1::MeasureProgress> MeasureNeeds(Store& store, Bytes max_workspace,
                                         UnixMillis now_ms,
                                         const MeasureOptions& options,
                                         const Asker& asker,
                                         PlanInputs* inputs) {
  if (options.retry_failed && !options.dry_run) {
    for (const std::string& kind : inputs->Kinds()) {
      UCUDNN_RETURN_IF_ERROR(store.tasks.RetryFailedTasks(kind, asker));
    }
  }
  const Asking asking{
      .enqueue = !options.dry_run,
      .retry_cancelled = !options.dry_run && options.retry_cancelled,
      .asker = asker,
      .max_workspace = std::max(max_workspace, inputs->request.KernelLimit()),
      .now_ms = now_ms};
  Queue queue;
  UCUDNN_RETURN_IF_ERROR(
      Look(store.tasks, *inputs, asking, inputs->needs, &queue));
  UCUDNN_RETURN_IF_ERROR(Refine(store, asking, inputs, &queue));
  v1::MeasureProgress progress;
  if (!options.dry_run) progress.set_enqueued(queue.opened);
  progress.set_total(queue.total);
  progress.set_done(queue.counts.done);
  progress.set_running(queue.counts.leased);
  progress.set_failed(queue.counts.failed);
  progress.set_cancelled(queue.counts.cancelled);
  progress.set_unasked(queue.total - queue.counts.total());
  UCUDNN_ASSIGN_OR_RETURN(const auto usable, UsableDevices(store.agents));
  for (const auto& [kind, of_kind] : queue.kinds) {
    const auto found = usable.find(kind);
    const std::int64_t devices = found == usable.end() ? 0 : found->second;
    v1::KindProgress& added = *progress.add_kinds();
    added.set_kind(kind);
    added.set_total(of_kind.total);
    added.set_missing(of_kind.missing());
    added.set_devices(devices);
    added.set_pending(of_kind.counts.pending);
    if (of_kind.counts.pending > 0 && devices == 0) {
      progress.add_kinds_without_device(kind);
    }
  }
  UCUDNN_RETURN_IF_ERROR(AddReasons(store.tasks, *inputs, &progress));
  return progress;
}

}  // namespace ucudnn
