// Lists training jobs, shows how they run, and replans them.

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/plan/prediction.h"
#include "client/cli/profile_options.h"
#include "client/cli/server/list.h"
#include "client/cli/server/measuring.h"
#include "client/cli/server/names.h"
#include "client/cli/server/pages.h"
#include "client/cli/server/remove.h"
#include "client/cli/server/server.h"
#include "proto/json.h"

namespace ucudnn::ctl {
namespace {

struct ReplanOptions {
  std::string job;
  std::optional<std::int64_t> batch;
  std::optional<Bytes> workspace_limit;
  std::optional<Bytes> total_workspace;
  std::optional<BatchPolicy> policy;
  std::vector<Bytes> budgets;
  std::vector<std::int32_t> exclude;
  std::vector<std::int32_t> include;
  bool accept = false;
  int wait_seconds = 600;
  OutputFormat output = OutputFormat::kTable;
};

// The revision that awaits acceptance.
std::string Proposed(const Json& job) {
  const Json& revision = Member(job, "proposed_revision");
  return revision.is_number() && revision != 0 ? revision.dump() : "-";
}

List Jobs() {
  return {.columns = {Plain("JOB", "id"),
                      Plain("NAME", "name"),
                      Plain("STATE", "state"),
                      Planned(),
                      Plain("BATCH", "request.batch"),
                      Count("RANKS", "request.device_kinds"),
                      Plain("REVISION", "revision"),
                      {"PROPOSED", "proposed_revision", Proposed},
                      Plain("SOURCE", "source"),
                      Age("BEGAN", "created_ms"),
                      Age("LAST SEEN", "updated_ms"),
                      Wide(Plain("WHY", "reason"))},
          .id = "id",
          .fetch = Fetch(&Stub::ListJobs, &v1::ListJobsResponse::jobs),
          .states = {"running", "finished", "lost"}};
}

Status Replan(const Server& server, const ReplanOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  v1::ReplanJobRequest request;
  UCUDNN_ASSIGN_OR_RETURN(*request.mutable_job_id(),
                          JobNamed(*connection, options.job));
  if (options.batch) request.set_batch(*options.batch);
  if (options.workspace_limit) {
    request.set_workspace_limit_bytes(options.workspace_limit->count());
  }
  if (options.total_workspace) {
    request.set_total_workspace_bytes(options.total_workspace->count());
  }
  if (options.policy) {
    request.set_batch_policy(std::string(Name(*options.policy)));
  }
  for (const Bytes budget : options.budgets) {
    request.add_memory_budget_bytes(budget.count());
  }
  request.mutable_exclude_ranks()->Add(options.exclude.begin(),
                                       options.exclude.end());
  request.mutable_include_ranks()->Add(options.include.begin(),
                                       options.include.end());
  request.set_accept_proposed(options.accept);
  if (!options.accept) {
    v1::MeasureRequest measure;
    *measure.mutable_replan() = request;
    UCUDNN_RETURN_IF_ERROR(
        AwaitMeasured(*connection, std::move(measure),
                      std::chrono::seconds(options.wait_seconds)));
  }
  // Reports what is still missing, if anything.
  const auto answer =
      connection->Call(&Stub::ReplanJob, request, RetryPolicy::LongWork());
  if (!answer) {
    if (options.accept) return OfNoPlan(Status(tl::unexpect, answer.error()));
    return LeftBehind(answer.error(),
                      "if the coordinator has begun the plan, it finishes it, "
                      "and the job adopts it");
  }
  const v1::JobRevision& revision = *answer;
  const auto job = connection->Call(&Stub::GetJob, ById(request.job_id()));
  const bool whole_steps = job && job->whole_steps();
  return Print(options.output, ToJson(revision), [&] {
    if (revision.adopted_ms() > 0) {
      return fmt::format("job {} already has plan {}, as revision {}\n",
                         OneLine(request.job_id()), revision.plan_id(),
                         revision.revision());
    }
    return fmt::format(
        "revision {} of job {} is plan {} ({}), {} {}; its ranks adopt it at "
        "their next refresh\n",
        revision.revision(), OneLine(request.job_id()), revision.plan_id(),
        OneLine(revision.reason()), whole_steps ? "predicted" : kPredicted,
        HumanTime(Nanoseconds(revision.predicted_ns())));
  });
}

std::string TimeOrDash(std::int64_t ns) {
  return ns > 0 ? HumanTime(Nanoseconds(ns)) : "-";
}

}  // namespace

std::string JobText(const v1::Job& job) {
  std::string text = fmt::format(
      "job {}: {}, {}\n{} at batch {} on {} ranks; began {}, last seen {}\n"
      "first plan: {}\n\n",
      OneLine(job.id()), OneLine(job.name()), job.state(),
      PlannedText(job.request()), job.request().batch(), job.ranks_size(),
      Ago(job.created_ms()), Ago(job.updated_ms()), OneLine(job.reason()));
  const bool whole_steps = job.whole_steps();
  Table revisions({"REVISION", "PLAN",
                   whole_steps ? "PREDICTED" : std::string(kPredictedHeading),
                   "STATE", "WHY"});
  for (const v1::JobRevision& revision : job.revisions()) {
    std::string state = "adopted " + Ago(revision.adopted_ms());
    if (!revision.rejected().empty()) {
      state = "rejected: " + revision.rejected();
    } else if (revision.proposed()) {
      state = fmt::format(
          "proposed; `ucudnn replan {} --accept` has it adopted", job.id());
    } else if (revision.adopted_ms() == 0) {
      state = "not adopted yet";
    }
    revisions.AddRow(
        {std::to_string(revision.revision()),
         revision.plan_id() > 0 ? std::to_string(revision.plan_id()) : "-",
         TimeOrDash(revision.predicted_ns()), state, revision.reason()});
  }
  text += revisions.Text() + "\n";
  Table ranks({"RANK", "DEVICE", "HOST", "LAST SEEN", "REVISION", "STEPS",
               "LAST", "MEDIAN", "P90", "FIRST",
               whole_steps ? "PREDICTED" : "CONVOLUTIONS"});
  for (const v1::JobRank& rank : job.ranks()) {
    const std::vector<std::string> head = {std::to_string(rank.rank()),
                                           rank.device_id(), rank.host(),
                                           Ago(rank.last_seen_ms())};
    if (rank.steps().empty()) {
      ranks.AddRow({head[0], head[1], head[2], head[3], "-", "0", "-", "-", "-",
                    "-", "-"});
    }
    for (const v1::StepTimes& steps : rank.steps()) {
      ranks.AddRow({head[0], head[1], head[2], head[3],
                    std::to_string(steps.revision()),
                    std::to_string(steps.count()), TimeOrDash(steps.last_ns()),
                    TimeOrDash(steps.median_ns()), TimeOrDash(steps.p90_ns()),
                    TimeOrDash(steps.first_median_ns()),
                    TimeOrDash(steps.predicted_ns())});
    }
  }
  text += ranks.Text();
  text += "Steps are compared with the FIRST of their revision";
  text += whole_steps ? ".\n"
                      : fmt::format(
                            "; CONVOLUTIONS is the part of a step that the "
                            "plan predicts.\n{}\n",
                            kConvolutionsNote);
  for (const std::string& drift : job.drift())
    text += "drift: " + OneLine(drift) + "\n";
  for (const v1::IdleDevices& idle : job.idle_devices()) {
    text += fmt::format(
        "{} idle {} {} on its nodes: started again with {}, a step{} would "
        "take "
        "{} instead of {}\n",
        idle.count(), OneLine(idle.device_kind()),
        idle.count() == 1 ? "device" : "devices",
        idle.count() == 1 ? "it" : "them", whole_steps ? "" : "'s convolutions",
        HumanTime(Nanoseconds(idle.predicted_ns())),
        HumanTime(Nanoseconds(idle.predicted_now_ns())));
  }
  return text;
}

void AddJobCommands(CLI::App& app, const Server& server, Chosen* chosen) {
  CLI::App* jobs =
      app.add_subcommand("jobs", "List the training jobs, newest first");
  AddList(jobs, server, Jobs(), chosen);
  AddRemove(jobs, server,
            {.what = "job",
             .id = "JOB",
             .remove = &Stub::DeleteJob,
             .named = JobNamed},
            chosen);

  const auto options = std::make_shared<ReplanOptions>();
  CLI::App* replan = app.add_subcommand(
      "replan",
      "Replan a running job; its ranks adopt the new plan together at their "
      "next refresh. Options that are not given stay as they are");
  replan->add_option("JOB", options->job, "The job's id; see `ucudnn jobs`")
      ->required();
  replan
      ->add_option_function<std::int64_t>(
          "--batch", [options](std::int64_t batch) { options->batch = batch; },
          "The mini-batch size, over all ranks")
      ->check(CLI::Range(std::int64_t{1}, kMaxBatchSize.count()))
      ->option_text("N");
  const auto size = [&](const std::string& flag, std::optional<Bytes>* value,
                        const std::string& help) {
    return replan
        ->add_option_function<std::string>(
            flag,
            [value, flag](const std::string& text) {
              const Result<Bytes> bytes = ParseBytes(text);
              if (!bytes) {
                throw CLI::ValidationError(flag, bytes.error().message);
              }
              *value = *bytes;
            },
            help)
        ->option_text("SIZE");
  };
  CLI::Option* each =
      size("--workspace-limit", &options->workspace_limit,
           "Workspace limit for each convolution, such as 64MiB");
  size("--total-workspace", &options->total_workspace,
       "Workspace limit for all convolutions together")
      ->excludes(each);
  AddBatchPolicyOption(
      replan, "--batch-policy", "the job's",
      [options](BatchPolicy policy) { options->policy = policy; });
  AddMemoryBudgetOption(replan, &options->budgets,
                        "Of a job with memory plans: device memory of all "
                        "ranks, such as 12GiB, or of each, such as 6GiB,2GiB");
  replan
      ->add_option("--exclude-ranks", options->exclude,
                   "All ranks that are to get no part of the batch, sorted")
      ->delimiter(',')
      ->option_text("RANK,...");
  replan
      ->add_option("--include-ranks", options->include,
                   "Ranks that are to get a part of the batch again")
      ->delimiter(',')
      ->option_text("RANK,...");
  replan
      ->add_option("--wait", options->wait_seconds,
                   "Seconds to wait for missing measurements")
      ->check(CLI::Range(0, 86'400))
      ->option_text("SECONDS");
  CLI::Option* accept = replan->add_flag(
      "--accept", options->accept,
      "Have the ranks adopt the revision that the coordinator proposed");
  for (const char* change :
       {"--batch", "--workspace-limit", "--total-workspace", "--memory-budget",
        "--batch-policy", "--exclude-ranks", "--include-ranks"}) {
    accept->excludes(replan->get_option(change));
  }
  AddOutputOption(replan, &options->output);
  OnChosen(replan, chosen,
           [&server, options] { return Replan(server, *options); });
}

}  // namespace ucudnn::ctl
