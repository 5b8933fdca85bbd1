// Deletes what ended long ago.

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "client/cli/server/names.h"
#include "client/cli/server/server.h"
#include "proto/json.h"

namespace ucudnn::ctl {
namespace {

struct PruneOptions {
  v1::PruneRequest request;
  OutputFormat output = OutputFormat::kTable;
};

Status Prune(const Server& server, PruneOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  options.request.set_who(WhoAmI());
  UCUDNN_ASSIGN_OR_RETURN(
      const v1::PruneResponse answer,
      connection->Call(&Stub::Prune, options.request, RetryPolicy::LongWork()));
  return Print(options.output, ToJson(answer), [&] {
    Table table(
        {options.request.dry_run() ? "WOULD BE REMOVED" : "REMOVED", "NUMBER"});
    table.AddRow({"tasks", std::to_string(answer.tasks())});
    table.AddRow({"rows of steps", std::to_string(answer.steps())});
    table.AddRow({"plans", std::to_string(answer.plans())});
    table.AddRow({"jobs", std::to_string(answer.jobs())});
    return table.Text();
  });
}

}  // namespace

void AddPruneCommand(CLI::App& app, const Server& server, Chosen* chosen) {
  const auto options = std::make_shared<PruneOptions>();
  CLI::App* prune = app.add_subcommand(
      "prune",
      "Remove old tasks, steps, plans and jobs that nothing in use needs, as "
      "the coordinator is configured or for longer than given here");
  v1::PruneRequest* request = &options->request;
  const auto days = [&](const char* name, const char* what, const auto& set) {
    prune
        ->add_option_function<std::int64_t>(
            name, set,
            fmt::format("For how many days {} are kept; 0: forever", what))
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{36'500}))
        ->option_text("DAYS");
  };
  days("--keep-tasks", "failed, cancelled and outdated tasks",
       [request](std::int64_t n) { request->set_keep_tasks_days(n); });
  days("--keep-steps", "step times of ended jobs",
       [request](std::int64_t n) { request->set_keep_steps_days(n); });
  days("--keep-plans", "plans that no job has",
       [request](std::int64_t n) { request->set_keep_plans_days(n); });
  days("--keep-jobs", "ended jobs",
       [request](std::int64_t n) { request->set_keep_jobs_days(n); });
  prune->add_flag_callback(
      "--dry-run", [request] { request->set_dry_run(true); },
      "Only tell what would be removed");
  AddReasonOption(prune, request->mutable_reason());
  AddOutputOption(prune, &options->output);
  OnChosen(prune, chosen,
           [&server, options] { return Prune(server, *options); });
}

}  // namespace ucudnn::ctl
