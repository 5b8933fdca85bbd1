// What is measured and what waits for it, cancelling that, and the record of
// who did what.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "client/cli/server/list.h"
#include "client/cli/server/names.h"
#include "client/cli/server/pages.h"
#include "client/cli/server/server.h"
#include "proto/json.h"

namespace ucudnn::ctl {
namespace {

struct TaskFilters {
  std::string state;
  std::string kind;
  std::int64_t campaign = 0;
};

List Tasks(const std::shared_ptr<TaskFilters>& filters) {
  List list;
  list.columns = {
      Plain("TASK", "id"),         Plain("STATE", "state"),
      Kind("KIND", "kind"),        Plain("PROBLEM", "problem"),
      Plain("BATCH", "batch"),     Plain("DEVICE", "device_id"),
      Plain("TRIES", "attempts"),  Age("REQUESTED", "created_ms"),
      Plain("WHY", "error"),       Wide(Plain("FOR", "asked_by")),
      Wide(Plain("GOAL", "goal")), Wide(Age("ENDED", "finished_ms"))};
  list.id = "id";
  list.fetch = [filters](Connection& connection,
                         v1::ListRequest request) -> Result<Json> {
    request.set_state(filters->state);
    request.set_campaign_id(filters->campaign);
    if (!filters->kind.empty()) {
      UCUDNN_ASSIGN_OR_RETURN(*request.mutable_kind(),
                              KindNamed(connection, filters->kind));
    }
    return Entries(connection, &Stub::ListTasks, &v1::ListTasksResponse::tasks,
                   std::move(request));
  };
  return list;
}

// "3 of 5", or "3 of 5, 1 failed".
std::string ProgressText(const Json& campaign) {
  std::string text = fmt::format("{} of {}", campaign["done"].dump(),
                                 campaign["total"].dump());
  for (const char* other : {"failed", "cancelled"}) {
    if (campaign[other] == 0) continue;
    text += fmt::format(", {} {}", campaign[other].dump(), other);
  }
  return text;
}

std::string LeftText(const Json& campaign) {
  if (!campaign["kinds_without_device"].empty()) return "no device online";
  const Json& left = campaign["left_ms"];
  if (!left.is_number()) return "-";
  return HumanTime(std::chrono::milliseconds(left.get<std::int64_t>()));
}

List Campaigns() {
  return {.columns = {Plain("CAMPAIGN", "id"),
                      Plain("NETWORK", "request.network"),
                      Plain("BATCH", "request.batch"),
                      Plain("POLICY", "request.batch_policy"),
                      Plain("STATE", "state"),
                      {"MEASURED", "done", ProgressText},
                      {"LEFT", "left_ms", LeftText},
                      Age("BEGAN", "created_ms"),
                      Plain("WHY", "cancelled_why")},
          .id = "id",
          .fetch = Fetch(&Stub::ListCampaigns,
                         &v1::ListCampaignsResponse::campaigns),
          .states = {"running", "finished", "cancelled"}};
}

List History() {
  return {
      .columns = {Age("WHEN", "made_ms"), Plain("WHO", "who"),
                  Plain("WHAT", "what"), Plain("OBJECT", "object"),
                  Plain("WHY", "reason"), Plain("OUTCOME", "outcome")},
      .id = "id",
      .fetch = Fetch(&Stub::ListActions, &v1::ListActionsResponse::actions)};
}

struct CancelOptions {
  std::int64_t campaign = 0;
  std::vector<std::int64_t> tasks;
  std::string kind;
  std::string reason;
  OutputFormat output = OutputFormat::kTable;
};

Status Cancel(const Server& server, const CancelOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  v1::CancelTasksRequest request;
  request.set_campaign_id(options.campaign);
  for (const std::int64_t task : options.tasks) request.add_task_ids(task);
  if (!options.kind.empty()) {
    UCUDNN_ASSIGN_OR_RETURN(*request.mutable_kind(),
                            KindNamed(*connection, options.kind));
  }
  request.set_who(WhoAmI());
  request.set_reason(options.reason);
  UCUDNN_ASSIGN_OR_RETURN(const v1::CancelTasksResponse cancelled,
                          OfNoPlan(connection->Call(&Stub::CancelTasks, request,
                                                    RetryPolicy::LongWork())));
  return Print(options.output, ToJson(cancelled), [&] {
    std::string text =
        fmt::format("{} measurements cancelled", cancelled.cancelled());
    if (cancelled.running() > 0) {
      text += fmt::format("; devices finish the {} that they have begun",
                          cancelled.running());
    }
    if (cancelled.kept() > 0) {
      text += fmt::format("; {} go on for other campaigns", cancelled.kept());
    }
    return text + "\n";
  });
}

void AddCancelCommand(CLI::App& app, const Server& server, Chosen* chosen) {
  const auto options = std::make_shared<CancelOptions>();
  CLI::App* cancel = app.add_subcommand(
      "cancel",
      "Cancel what a campaign measures for nobody else; or tasks, or all tasks "
      "of a kind. `ucudnn plan` and `measure` request them again");
  CLI::App* target =
      cancel->add_option_group("target", "One of CAMPAIGN, --task and --kind");
  target->require_option(1);
  target
      ->add_option("CAMPAIGN", options->campaign,
                   "A running campaign; see `ucudnn campaigns`")
      ->check(CLI::Range(std::int64_t{1}, kMaxCount))
      ->default_str("");
  target
      ->add_option("--task", options->tasks, "These tasks; see `ucudnn tasks`")
      ->check(CLI::Range(std::int64_t{1}, kMaxCount))
      ->option_text("TASK...");
  AddTextOption(target, "--kind", "KIND", &options->kind,
                "All open tasks of this kind");
  AddReasonOption(cancel, &options->reason);
  AddOutputOption(cancel, &options->output);
  OnChosen(cancel, chosen,
           [&server, options] { return Cancel(server, *options); });
}

}  // namespace

void AddTaskCommands(CLI::App& app, const Server& server, Chosen* chosen) {
  const auto filters = std::make_shared<TaskFilters>();
  CLI::App* tasks = app.add_subcommand(
      "tasks", "List what is measured and what waits for it");
  tasks
      ->add_option("--state", filters->state,
                   "Only these: pending, running, expired (their device is "
                   "silent), done, failed or cancelled")
      ->check(CLI::IsMember(
          {"pending", "running", "expired", "done", "failed", "cancelled"}))
      ->option_text("STATE");
  AddTextOption(tasks, "--kind", "KIND", &filters->kind,
                "Only tasks of this kind");
  tasks
      ->add_option("--campaign", filters->campaign,
                   "Only what this campaign needs")
      ->check(CLI::Range(std::int64_t{1}, kMaxCount))
      ->option_text("CAMPAIGN")
      ->default_str("");
  AddList(tasks, server, Tasks(filters), chosen);
  AddList(app.add_subcommand("campaigns",
                             "List the requests for plans that had to be "
                             "measured for, newest first"),
          server, Campaigns(), chosen);
  AddCancelCommand(app, server, chosen);
  AddList(
      app.add_subcommand("history",
                         "List who cancelled, removed, cordoned and drained "
                         "what, when and why, newest first"),
      server, History(), chosen);
}

}  // namespace ucudnn::ctl
