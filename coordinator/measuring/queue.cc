// The queue of tasks and the campaigns, for people: what waits, what runs, and
// cancelling it.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/service/call.h"
#include "base/service/log.h"
#include "base/text.h"
#include "coordinator/actions.h"
#include "coordinator/limits.h"
#include "coordinator/measuring/campaigns.h"
#include "coordinator/measuring/measuring.h"
#include "coordinator/measuring/measuring_service.h"
#include "coordinator/page.h"
#include "ucudnn/v1/coordinator.pb.h"

namespace ucudnn {
namespace {

constexpr char kRunning[] = "running";
constexpr char kExpired[] = "expired";

// A task's state as people see it; see QueuedTask.
std::string StateOf(const TaskRecord& task, UnixMillis now_ms) {
  if (task.state != TaskState::kLeased) return std::string(Name(task.state));
  return task.lease_until_ms > now_ms ? kRunning : kExpired;
}

v1::QueuedTask ToProto(const TaskRecord& record, UnixMillis now_ms) {
  v1::QueuedTask task;
  task.set_id(record.id);
  task.set_kind(record.key.kind);
  task.set_problem(record.key.problem);
  task.set_batch(record.key.batch.count());
  task.set_goal(record.key.goal);
  task.set_max_workspace_bytes(record.max_workspace.count());
  task.set_state(StateOf(record, now_ms));
  task.set_attempts(record.attempts);
  task.set_agent_id(record.agent);
  task.set_device_id(record.device);
  task.set_lease_until_ms(record.lease_until_ms);
  task.set_error(record.error);
  task.set_created_ms(record.created_ms);
  task.set_finished_ms(record.finished_ms);
  task.set_asked_by(record.asked_by);
  return task;
}

// Restricts the filter to what people call `state`. kInvalidArgument.
Status SetState(const std::string& state, TaskFilter* filter) {
  if (state.empty()) return {};
  if (state == kRunning || state == kExpired) {
    filter->state = TaskState::kLeased;
    filter->expired = state == kExpired;
    return {};
  }
  const auto parsed = ParseTaskState(state);
  if (!parsed || *parsed == TaskState::kLeased) {
    return Fail(Code::kInvalidArgument,
                "state is '{}'; pending, running, expired, done, failed and "
                "cancelled are accepted",
                Excerpt(state));
  }
  filter->state = *parsed;
  return {};
}

// The keys of all tasks that the campaign needs, also for the shares that
// unlike ranks turned out to need.
struct CampaignNeeds {
  v1::MeasureProgress progress;
  std::vector<TaskKey> keys;
};

Result<CampaignNeeds> NeedsOfCampaign(Store& store,
                                      const CampaignRecord& campaign,
                                      UnixMillis now_ms) {
  UCUDNN_ASSIGN_OR_RETURN(PlanInputs inputs, InputsOf(store, campaign));
  CampaignNeeds needs;
  UCUDNN_ASSIGN_OR_RETURN(
      needs.progress, MeasureNeeds(store, Bytes(0), now_ms, {.dry_run = true},
                                   Asker(), &inputs));
  needs.keys = KeysOf(inputs.needs);
  return needs;
}

// Calls `body` with the tasks of these keys, some at a time.
template <class Body>
Status ForTasks(TaskStore& tasks, std::span<const TaskKey> keys,
                const Body& body) {
  while (!keys.empty()) {
    UCUDNN_RETURN_IF_ERROR(Call::Check());
    const auto piece = keys.first(std::min(keys.size(), kTasksAtOnce));
    keys = keys.subspan(piece.size());
    UCUDNN_ASSIGN_OR_RETURN(const auto found, tasks.FindTasks(piece));
    UCUDNN_RETURN_IF_ERROR(body(found));
  }
  return {};
}

// The campaign's tasks that the request selects, by id.
Result<std::vector<TaskRecord>> TasksOfCampaign(Store& store,
                                                const v1::ListRequest& request,
                                                std::int64_t after, int limit,
                                                UnixMillis now_ms) {
  UCUDNN_ASSIGN_OR_RETURN(const CampaignRecord campaign,
                          store.campaigns.GetCampaign(request.campaign_id()));
  UCUDNN_ASSIGN_OR_RETURN(const CampaignNeeds needs,
                          NeedsOfCampaign(store, campaign, now_ms));
  std::vector<TaskRecord> tasks;
  UCUDNN_RETURN_IF_ERROR(
      ForTasks(store.tasks, needs.keys, [&](const auto& found) -> Status {
        for (const TaskRecord& task : found) {
          if (task.id <= after ||
              (!request.kind().empty() && task.key.kind != request.kind()) ||
              (!request.state().empty() &&
               StateOf(task, now_ms) != request.state())) {
            continue;
          }
          tasks.push_back(task);
        }
        return {};
      }));
  std::ranges::sort(tasks, {}, &TaskRecord::id);
  if (std::ssize(tasks) > limit) {
    tasks.resize(static_cast<std::size_t>(limit));
  }
  return tasks;
}

bool IsOpen(const TaskRecord& task) {
  return task.state == TaskState::kPending || task.state == TaskState::kLeased;
}

// Cancels these tasks, some at a time.
Status Cancel(TaskStore& tasks, std::span<const std::int64_t> ids,
              const std::string& why, UnixMillis now_ms,
              v1::CancelTasksResponse* response) {
  while (!ids.empty()) {
    UCUDNN_RETURN_IF_ERROR(Call::Check());
    const auto piece = ids.first(std::min(ids.size(), kTasksAtOnce));
    ids = ids.subspan(piece.size());
    UCUDNN_ASSIGN_OR_RETURN(const TaskCounts cancelled,
                            tasks.CancelTasks(piece, why, now_ms));
    response->set_cancelled(response->cancelled() + cancelled.total());
    response->set_running(response->running() + cancelled.leased);
  }
  return {};
}

Status CancelKind(TaskStore& tasks, const std::string& kind,
                  const std::string& why, UnixMillis now_ms,
                  v1::CancelTasksResponse* response) {
  for (const TaskState state : {TaskState::kPending, TaskState::kLeased}) {
    TaskFilter filter{.kind = kind, .state = state, .limit = kTasksAtOnce};
    while (true) {
      UCUDNN_ASSIGN_OR_RETURN(const auto found, tasks.ListTasks(filter));
      if (found.empty()) break;
      filter.after_id = found.back().id;
      std::vector<std::int64_t> ids;
      for (const TaskRecord& task : found) ids.push_back(task.id);
      UCUDNN_RETURN_IF_ERROR(Cancel(tasks, ids, why, now_ms, response));
    }
  }
  return {};
}

Status CancelCampaign(Store& store, std::int64_t id, const std::string& why,
                      UnixMillis now_ms, v1::CancelTasksResponse* response) {
  UCUDNN_ASSIGN_OR_RETURN(const CampaignRecord campaign,
                          store.campaigns.GetCampaign(id));
  if (campaign.finished_ms > 0) {
    return Fail(Code::kFailedPrecondition, "campaign {} does not run any more",
                id);
  }
  UCUDNN_ASSIGN_OR_RETURN(const CampaignNeeds needs,
                          NeedsOfCampaign(store, campaign, now_ms));
  std::set<TaskKey> others;
  constexpr std::int64_t kMostRunning = 1000;
  UCUDNN_ASSIGN_OR_RETURN(const auto running,
                          store.campaigns.ListRunningCampaigns(kMostRunning));
  for (const CampaignRecord& other : running) {
    if (other.id == id) continue;
    UCUDNN_ASSIGN_OR_RETURN(const CampaignNeeds theirs,
                            NeedsOfCampaign(store, other, now_ms));
    others.insert(theirs.keys.begin(), theirs.keys.end());
  }
  std::vector<std::int64_t> ids;
  UCUDNN_RETURN_IF_ERROR(
      ForTasks(store.tasks, needs.keys, [&](const auto& found) -> Status {
        for (const TaskRecord& task : found) {
          if (!IsOpen(task)) continue;
          if (others.contains(task.key)) {
            response->set_kept(response->kept() + 1);
          } else {
            ids.push_back(task.id);
          }
        }
        return {};
      }));
  UCUDNN_RETURN_IF_ERROR(Cancel(store.tasks, ids, why, now_ms, response));
  UCUDNN_ASSIGN_OR_RETURN(const CampaignNeeds left,
                          NeedsOfCampaign(store, campaign, now_ms));
  return EndCampaign(store.campaigns, campaign, left.progress, why, now_ms);
}

}  // namespace

Result<v1::ListTasksResponse> MeasuringService::ListTasks(
    const v1::ListRequest& request) {
  const UnixMillis now = clock_.NowMs();
  TaskFilter filter;
  filter.kind = request.kind();
  filter.now_ms = now;
  UCUDNN_RETURN_IF_ERROR(SetState(request.state(), &filter));
  if (!request.after().empty()) {
    const auto after = ParseInteger(request.after(), 1, kMaxCount);
    if (!after) return Within("after", after.error());
    filter.after_id = *after;
  }
  UCUDNN_ASSIGN_OR_RETURN(const int limit, PageSize(request));
  filter.limit = limit;
  UCUDNN_ASSIGN_OR_RETURN(
      const std::vector<TaskRecord> tasks,
      request.campaign_id() == 0
          ? store_.tasks.ListTasks(filter)
          : TasksOfCampaign(store_, request, filter.after_id, limit, now));
  v1::ListTasksResponse response;
  PageBytes bytes;
  for (const TaskRecord& task : tasks) {
    *response.add_tasks() = ToProto(task, now);
    if (bytes.Fill(*response.tasks().rbegin())) break;
  }
  return response;
}

Result<v1::QueuedTask> MeasuringService::GetTask(
    const v1::GetRequest& request) {
  const Result<std::int64_t> id = ParseInteger(request.id(), 1, kMaxCount);
  if (!id) return Within("task id", id.error());
  UCUDNN_ASSIGN_OR_RETURN(const TaskRecord task, store_.tasks.GetTask(*id));
  return ToProto(task, clock_.NowMs());
}

Result<v1::CancelTasksResponse> MeasuringService::CancelTasks(
    const v1::CancelTasksRequest& request) {
  const int targets = (request.campaign_id() > 0 ? 1 : 0) +
                      (request.task_ids().empty() ? 0 : 1) +
                      (request.kind().empty() ? 0 : 1);
  if (targets != 1) {
    return Fail(Code::kInvalidArgument,
                "{} of campaign_id, task_ids and kind are given; one is "
                "accepted",
                targets);
  }
  const UnixMillis now = clock_.NowMs();
  const std::string why = ByWhomAndWhy(request.who(), request.reason());
  v1::CancelTasksResponse response;
  std::string object;
  if (request.campaign_id() > 0) {
    object = fmt::format("campaign {}", request.campaign_id());
    UCUDNN_RETURN_IF_ERROR(
        CancelCampaign(store_, request.campaign_id(), why, now, &response));
  } else if (!request.kind().empty()) {
    object = fmt::format("kind {}", request.kind());
    UCUDNN_RETURN_IF_ERROR(
        CancelKind(store_.tasks, request.kind(), why, now, &response));
  } else {
    const std::vector<std::int64_t> ids(request.task_ids().begin(),
                                        request.task_ids().end());
    for (const std::int64_t id : ids) {
      UCUDNN_RETURN_IF_ERROR(store_.tasks.GetTask(id));
    }
    object = ids.size() == 1
                 ? fmt::format("task {}", ids[0])
                 : fmt::format("{} tasks from {}", ids.size(), ids[0]);
    UCUDNN_RETURN_IF_ERROR(Cancel(store_.tasks, ids, why, now, &response));
  }
  UCUDNN_RETURN_IF_ERROR(store_.actions.AddAction(
      {.made_ms = now,
       .who = request.who(),
       .what = "cancel",
       .object = object,
       .reason = request.reason(),
       .outcome = fmt::format("{} tasks cancelled, {} of them running",
                              response.cancelled(), response.running())}));
  spdlog::info("event=cancelled object={} who={} why={} tasks={}",
               Quoted(object), Quoted(request.who()), Quoted(request.reason()),
               response.cancelled());
  return response;
}

Result<v1::ListCampaignsResponse> MeasuringService::ListCampaigns(
    const v1::ListRequest& request) {
  UCUDNN_ASSIGN_OR_RETURN(std::int64_t before, OlderThan(request));
  v1::ListCampaignsResponse response;
  PageBytes bytes;
  UCUDNN_RETURN_IF_ERROR(FillPage(
      request,
      [&](int limit) { return store_.campaigns.ListCampaigns(limit, before); },
      [&](const CampaignRecord& record) -> Result<bool> {
        before = record.id;
        UCUDNN_ASSIGN_OR_RETURN(*response.add_campaigns(), ToProto(record));
        return bytes.Fill(*response.campaigns().rbegin());
      }));
  return response;
}

Result<v1::Campaign> MeasuringService::GetCampaign(
    const v1::GetRequest& request) {
  const Result<std::int64_t> id = ParseInteger(request.id(), 1, kMaxCount);
  if (!id) return Within("campaign id", id.error());
  UCUDNN_ASSIGN_OR_RETURN(const CampaignRecord campaign,
                          store_.campaigns.GetCampaign(*id));
  return ToProto(campaign);
}

}  // namespace ucudnn
