// Makes plans, waits for their measurements, and lists plans.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/files/file.h"
#include "base/plan/prediction.h"
#include "client/cli/memory_text.h"
#include "client/cli/profile_options.h"
#include "client/cli/server/list.h"
#include "client/cli/server/measuring.h"
#include "client/cli/server/names.h"
#include "client/cli/server/pages.h"
#include "client/cli/server/remove.h"
#include "client/cli/server/server.h"
#include "proto/convert_plan.h"
#include "proto/json.h"

namespace ucudnn::ctl {
namespace {

struct RequestOptions {
  std::string network;
  std::string step;
  bool all_ranks = false;
  CLI::App* limit = nullptr;  // the options of which a network needs one
  BatchSize batch;
  Bytes workspace_limit;
  Bytes total_workspace;
  bool concurrent = false;
  std::vector<Bytes> memory_budgets;  // empty: no memory plan
  std::string memory_policy = "best";
  bool recompute = false;
  bool offload_weights = false;
  bool momentum = false;
  BatchPolicy policy = BatchPolicy::kPowerOfTwo;
  double max_error = kDefaultMaxError;
  std::vector<std::string> kinds;
  int ranks = 1;
  std::string precision;
  std::string layout;
  std::string save;
  bool retry_failed = false;
  bool dry_run = false;
  bool no_wait = false;
  bool wait_for_device = false;
  std::optional<int> timeout_seconds;
  OutputFormat output = OutputFormat::kTable;
};

void AddPlanOptions(CLI::App* command, RequestOptions* options) {
  CLI::App* source =
      command->add_option_group("source", "One of --network and --step");
  source->require_option(1);
  AddTextOption(source, "--network", "NETWORK", &options->network,
                "A registered network; see `ucudnn networks put`");
  CLI::Option* step =
      AddTextOption(source, "--step", "STEP", &options->step,
                    "A framework's training step; see `ucudnn steps put`: "
                    "plans shares and, with --memory-budget, budgets");
  command
      ->add_flag("--all-ranks", options->all_ranks,
                 "Every rank gets images; for steps")
      ->needs(step);
  AddBatchOption(command, &options->batch);
  CLI::App* limit =
      command->add_option_group("limit",
                                "One of --workspace-limit, --total-workspace "
                                "and --memory-budget, or none "
                                "with --step");
  limit->require_option(0, 1);
  options->limit = limit;
  AddBytesOption(limit, "--workspace-limit", &options->workspace_limit,
                 "Workspace limit for each convolution, such as 64MiB");
  CLI::Option* total = AddBytesOption(
      limit, "--total-workspace", &options->total_workspace,
      "Workspace limit for all convolutions together, which share it by "
      "running one after the other");
  command
      ->add_flag("--concurrent", options->concurrent,
                 "Divide the total among convolutions that may run at once by "
                 "the network's graph, each with a segment; for ONNX models")
      ->needs(total);
  CLI::Option* budget = AddMemoryBudgetOption(
      limit, &options->memory_budgets,
      "Device memory of all ranks, such as 12GiB, or of each, such as "
      "6GiB,2GiB: plans shares and whole training iterations within it, see "
      "docs/memory.md; 0: all that the device has");
  AddTextOption(command, "--memory-policy", "NAME", &options->memory_policy,
                "As solve memory --policy, except all")
      ->needs(budget)
      ->capture_default_str();
  command
      ->add_flag("--recompute", options->recompute,
                 "The memory plan may compute activations again")
      ->needs(budget);
  command
      ->add_flag("--offload-weights", options->offload_weights,
                 "The memory plan may keep weights on the host")
      ->needs(budget);
  command
      ->add_flag("--momentum", options->momentum,
                 "Updates keep a momentum for each weight, on the device")
      ->needs(budget);
  AddBatchPolicyOption(command, &options->policy);
  AddMaxErrorOption(command, &options->max_error);
  command
      ->add_option("--ranks", options->ranks,
                   "How many ranks share the batch; as many as there are "
                   "kinds or memory budgets, if several, else 1")
      ->check(CLI::Range(1, 65536))
      ->option_text("N");
  command
      ->add_option("--device-kind", options->kinds,
                   "The device kind of all ranks, or one for each rank, as "
                   "`ucudnn kinds` lists them; needed where there are several")
      ->option_text("KIND[,...]");
  AcceptNames(command->add_option("--precision", options->precision,
                                  "FP32, TF32, TRUE_HALF, PSEUDO_HALF or BF16"),
              NamesOf(kPrecisions))
      ->option_text("P");
  AcceptNames(command->add_option("--layout", options->layout, "NCHW or NHWC"),
              NamesOf(kLayouts))
      ->option_text("L");
  command->add_flag("--retry-failed", options->retry_failed,
                    "Retry measurements that failed before");
  CLI::Option* dry_run = command->add_flag(
      "--dry-run", options->dry_run,
      "Only tell what would be measured, on which devices and for how long");
  CLI::Option* no_wait =
      command
          ->add_flag("--no-wait", options->no_wait,
                     "Request what is missing, and do not wait for it")
          ->excludes(dry_run);
  command
      ->add_option_function<int>(
          "--timeout",
          [options](int seconds) { options->timeout_seconds = seconds; },
          "Wait for measurements at most so long; they continue, and the exit "
          "status is 4")
      ->check(CLI::Range(1, 86'400 * 7))
      ->option_text("SECONDS")
      ->excludes(dry_run)
      ->excludes(no_wait);
  command->add_flag("--wait-for-device", options->wait_for_device,
                    "Request measurements also of kinds of which no device is "
                    "online, and wait for one");
  AddOutputOption(command, &options->output);
}

// The step's kinds that begin with these texts; the only one if there is none.
Result<std::vector<std::string>> StepKindsNamed(
    Connection& connection, const std::string& name,
    const std::vector<std::string>& texts) {
  UCUDNN_ASSIGN_OR_RETURN(const v1::Step step,
                          connection.Call(&Stub::GetStep, ById(name)));
  std::vector<std::string> known;
  for (const v1::StepKind& kind : step.kinds()) {
    known.push_back(kind.device_kind());
  }
  if (texts.empty() && known.size() == 1) return known;
  if (texts.empty()) {
    return Fail(
        Code::kInvalidArgument,
        "step '{}' has several kinds of devices; name one for each rank "
        "with --device-kind: {}",
        name, fmt::join(known, ", "));
  }
  std::vector<std::string> kinds;
  for (const std::string& text : texts) {
    const bool whole =  // may have commas
        std::ranges::find(known, text) != known.end();
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end =
          whole ? text.size() : std::min(text.find(',', begin), text.size());
      UCUDNN_ASSIGN_OR_RETURN(
          kinds.emplace_back(),
          UniquePrefix("device kind", text.substr(begin, end - begin), known));
      begin = end + 1;
    }
  }
  return kinds;
}

Result<v1::PlanRequest> MakeRequest(const RequestOptions& options,
                                    Connection& connection) {
  v1::PlanRequest request;
  if (options.step.empty()) {
    if (options.limit->count_all() == 0) {
      return Fail(Code::kInvalidArgument,
                  "--network is given without a limit; one of "
                  "--workspace-limit, --total-workspace and --memory-budget is "
                  "accepted");
    }
    UCUDNN_ASSIGN_OR_RETURN(*request.mutable_network(),
                            NetworkNamed(connection, options.network));
  }
  request.set_step(options.step);
  request.set_all_ranks(options.all_ranks);
  request.set_batch(options.batch.count());
  request.set_workspace_limit_bytes(options.workspace_limit.count());
  request.set_total_workspace_bytes(options.total_workspace.count());
  request.set_concurrent(options.concurrent);
  if (!options.memory_budgets.empty()) {
    v1::MemoryPlanRequest& memory = *request.mutable_memory();
    if (options.memory_budgets.size() == 1) {
      memory.set_budget_bytes(options.memory_budgets[0].count());
    } else {
      for (const Bytes budget : options.memory_budgets) {
        memory.add_rank_budget_bytes(budget.count());
      }
    }
    memory.set_policy(options.memory_policy);
    memory.set_recompute(options.recompute);
    memory.set_offload_weights(options.offload_weights);
    memory.set_momentum(options.momentum);
  }
  request.set_batch_policy(std::string(Name(options.policy)));
  request.set_max_error(options.max_error);
  request.set_precision(options.precision);
  request.set_layout(options.layout);
  UCUDNN_ASSIGN_OR_RETURN(
      std::vector<std::string> kinds,
      options.step.empty()
          ? KindsNamed(connection, options.kinds)
          : StepKindsNamed(connection, options.step, options.kinds));
  const std::size_t budgets = options.memory_budgets.size();
  auto ranks = static_cast<std::size_t>(options.ranks);
  if (ranks == 1) ranks = std::max({kinds.size(), budgets, ranks});
  if (kinds.size() > 1 && kinds.size() != ranks) {
    return Fail(Code::kInvalidArgument,
                "--device-kind names {} kinds for {} ranks; one kind, or one "
                "for each rank, is accepted",
                kinds.size(), ranks);
  }
  if (budgets > 1 && budgets != ranks) {
    return Fail(Code::kInvalidArgument,
                "--memory-budget has {} sizes for {} ranks; one size, or one "
                "for each rank, is accepted",
                budgets, ranks);
  }
  if (kinds.empty()) {
    // Looked up once, because devices may come and go while the command waits.
    UCUDNN_ASSIGN_OR_RETURN(std::string kind,
                            OnlyKind(connection, "--device-kind"));
    kinds.push_back(std::move(kind));
  }
  if (kinds.size() == 1) kinds.resize(ranks, kinds[0]);
  for (const std::string& kind : kinds) request.add_device_kinds(kind);
  return request;
}

// "6.00 GiB of memory", "1.00 GiB to 6.00 GiB of memory", "all memory" or,
// where ranks have unlike ones, "6.00 GiB of memory or all".
std::string BudgetsText(std::set<std::int64_t> budgets) {
  const bool all = budgets.erase(0) > 0;  // what the device has
  if (budgets.empty()) return "all memory";
  const std::int64_t least = *budgets.begin();
  const std::int64_t most = *budgets.rbegin();
  return fmt::format("{}{} of memory{}",
                     least == most ? "" : HumanBytes(Bytes(least)) + " to ",
                     HumanBytes(Bytes(most)), all ? " or all" : "");
}

std::string LimitText(const v1::PlanRequest& request) {
  if (!request.step().empty() && !request.has_memory()) return "whole steps";
  if (request.has_memory()) {
    const v1::MemoryPlanRequest& memory = request.memory();
    return BudgetsText(
        memory.rank_budget_bytes_size() > 0
            ? std::set<std::int64_t>(memory.rank_budget_bytes().begin(),
                                     memory.rank_budget_bytes().end())
            : std::set{memory.budget_bytes()});
  }
  const std::int64_t total = request.total_workspace_bytes();
  return total > 0
             ? fmt::format("{} in total{}", HumanBytes(Bytes(total)),
                           request.concurrent() ? ", divided" : "")
             : fmt::format("{} per kernel",
                           HumanBytes(Bytes(request.workspace_limit_bytes())));
}

Status PrintCost(Connection& connection, const v1::PlanRequest& plan,
                 OutputFormat output) {
  v1::MeasureRequest request;
  *request.mutable_plan() = plan;
  request.set_dry_run(true);
  UCUDNN_ASSIGN_OR_RETURN(
      const v1::MeasureProgress cost,
      connection.Call(&Stub::Measure, request, RetryPolicy::LongWork()));
  return Print(output, ToJson(cost), [&] { return CostText(cost); });
}

// Has measured what the plan needs; returns false if it was not to wait for
// that. kDeadlineExceeded after --timeout.
Result<bool> Await(Connection& connection, const v1::PlanRequest& plan,
                   const RequestOptions& options) {
  v1::MeasureRequest request;
  *request.mutable_plan() = plan;
  request.set_retry_failed(options.retry_failed);
  request.set_wait_for_device(options.wait_for_device);
  std::optional<std::chrono::seconds> limit;
  if (options.timeout_seconds) limit.emplace(*options.timeout_seconds);
  if (options.no_wait) limit.emplace(0);
  UCUDNN_ASSIGN_OR_RETURN(const bool measured,
                          AwaitMeasured(connection, std::move(request), limit));
  if (!measured && !options.no_wait) {
    return Fail(Code::kDeadlineExceeded,
                "the measurements have not ended within {} s (--timeout)",
                *options.timeout_seconds);
  }
  return measured;
}

Status MakePlan(const Server& server, const RequestOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  UCUDNN_ASSIGN_OR_RETURN(const v1::PlanRequest request,
                          MakeRequest(options, *connection));
  if (options.dry_run) return PrintCost(*connection, request, options.output);
  UCUDNN_ASSIGN_OR_RETURN(const bool measured,
                          Await(*connection, request, options));
  if (!measured) return {};
  const auto plan =
      connection->Call(&Stub::CreatePlan, request, RetryPolicy::LongWork());
  if (!plan) {
    return LeftBehind(plan.error(),
                      "if the coordinator has begun the plan, it finishes it, "
                      "and the same command prints it then");
  }
  if (!options.save.empty()) {
    Status saved = ReplaceFile(options.save, ToJson(*plan).dump(2) + "\n");
    if (!saved) return Within("--save", std::move(saved).error());
  }
  return Print(options.output, ToJson(*plan), [&] { return PlanText(*plan); });
}

Status Measure(const Server& server, const RequestOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  UCUDNN_ASSIGN_OR_RETURN(const v1::PlanRequest request,
                          MakeRequest(options, *connection));
  if (options.dry_run) return PrintCost(*connection, request, options.output);
  UCUDNN_RETURN_IF_ERROR(Await(*connection, request, options));
  v1::MeasureRequest measure;
  *measure.mutable_plan() = request;
  measure.set_dry_run(true);
  UCUDNN_ASSIGN_OR_RETURN(
      const v1::MeasureProgress progress,
      connection->Call(&Stub::Measure, measure, RetryPolicy::LongWork()));
  return Print(options.output, ToJson(progress), [&] {
    return fmt::format("{} of {} measured, {} failed\n", progress.done(),
                       progress.total(), progress.failed());
  });
}

// The workspace limit, for people.
std::string PlanLimit(const Json& plan) {
  v1::PlanRequest request;
  return FromJson(plan["request"], &request) ? LimitText(request) : "-";
}

// Above it is written that the time is of convolutions only.
Column Predicted() {
  Column column = Duration(std::string(kPredictedHeading), "predicted_us");
  column.text = [time = std::move(column.text)](const Json& plan) {
    return time(plan) +
           (plan.value("whole_steps", false) ? " (whole step)" : "");
  };
  return column;
}

List Plans() {
  return {.columns = {Plain("PLAN", "id"),
                      Planned(),
                      Plain("BATCH", "request.batch"),
                      Count("RANKS", "request.device_kinds"),
                      {"LIMIT", "request.workspace_limit_bytes", PlanLimit},
                      Plain("POLICY", "request.batch_policy"),
                      Plain("PRECISION", "request.precision"),
                      Plain("LAYOUT", "request.layout"),
                      Predicted(),
                      Duration("UNDIVIDED", "undivided_us"),
                      Age("CREATED", "created_ms")},
          .id = "id",
          .fetch = Fetch(&Stub::ListPlans, &v1::ListPlansResponse::plans)};
}

std::string SizeText(bool known, std::int64_t bytes) {
  return known ? HumanBytes(Bytes(bytes)) : "-";
}

}  // namespace

std::string PlannedText(const v1::PlanRequest& request) {
  return OneLine(request.step().empty() ? request.network()
                                        : "step " + request.step());
}

std::string PlanText(const v1::Plan& plan) {
  const bool of_step = !plan.request().step().empty();
  std::string text =
      fmt::format("plan {}: {} at batch {}, {}{}\n\n", plan.id(),
                  PlannedText(plan.request()), plan.request().batch(),
                  LimitText(plan.request()),
                  of_step ? "" : ", " + OneLine(plan.request().batch_policy()));
  const bool memory = plan.request().has_memory() || of_step;
  Table ranks(memory ? std::vector<std::string>{"RANK", "DEVICE KIND", "BUDGET",
                                                "PEAK", "BATCH", "WEIGHT",
                                                "PREDICTED", "WHY"}
                     : std::vector<std::string>{
                           "RANK", "DEVICE KIND", "BATCH", "WEIGHT",
                           std::string(plan.whole_steps() ? kWholeStepsHeading
                                                          : kPredictedHeading),
                           "UNDIVIDED", "WHY"});
  // Ranks with the same kind and batch run the same kernels.
  std::set<std::pair<std::string, std::int64_t>> shown;
  std::string kernels;
  for (const v1::RankPlan& rank : plan.ranks()) {
    const v1::WorkspacePlan& workspace = WorkspaceOf(plan, rank.rank());
    std::vector<std::string> row = {std::to_string(rank.rank()),
                                    rank.device_kind()};
    if (memory) {
      row.push_back(SizeText(rank.has_memory(), rank.memory().budget_bytes()));
      row.push_back(SizeText(rank.has_memory(), rank.memory().peak_bytes()));
    }
    row.push_back(std::to_string(rank.batch()));
    row.push_back(fmt::format("{:.4f}", rank.weight()));
    row.push_back(HumanTime(Nanoseconds(workspace.total_time_ns())));
    if (!memory) {
      row.push_back(workspace.has_undivided_time_ns()
                        ? HumanTime(Nanoseconds(workspace.undivided_time_ns()))
                        : "-");
    }
    row.push_back(rank.reason());
    ranks.AddRow(std::move(row));
    if (rank.batch() == 0 || memory ||
        !shown.emplace(rank.device_kind(), rank.batch()).second) {
      continue;
    }
    const Result<WorkspacePlan> read = FromProto(workspace);
    kernels += fmt::format("\nbatch {} on {}\n", rank.batch(),
                           OneLine(rank.device_kind()));
    kernels += read ? PlanTable(*read) : OneLine(read.error().message) + "\n";
  }
  for (const v1::DeviceMemoryPlan& of_kind : plan.memory_plans()) {
    const auto json =
        nlohmann::ordered_json::parse(of_kind.plan_json(), nullptr, false);
    kernels += fmt::format("\nbatch {} on {} with {}\n", of_kind.batch(),
                           OneLine(of_kind.device_kind()),
                           HumanBytes(Bytes(of_kind.budget_bytes())));
    kernels += json.is_object() ? MemorySummary(json)
                                : "its memory plan cannot be read\n";
  }
  return text + ranks.Text() + kernels +
         Lines({plan.reasons().begin(), plan.reasons().end()});
}

void AddPlanCommands(CLI::App& app, const Server& server, Chosen* chosen) {
  const auto to_plan = std::make_shared<RequestOptions>();
  CLI::App* plan = app.add_subcommand(
      "plan", "Make the optimal plan for a network, measuring what is missing");
  AddPlanOptions(plan, to_plan.get());
  AddTextOption(
      plan, "--save", "FILE", &to_plan->save,
      "Also write the plan to this file; jobs take it as UCUDNN_PLAN_FILE");
  OnChosen(plan, chosen,
           [&server, to_plan] { return MakePlan(server, *to_plan); });

  const auto to_measure = std::make_shared<RequestOptions>();
  CLI::App* measure = app.add_subcommand(
      "measure", "Measure what a plan would need, without making it");
  AddPlanOptions(measure, to_measure.get());
  OnChosen(measure, chosen,
           [&server, to_measure] { return Measure(server, *to_measure); });

  CLI::App* plans = app.add_subcommand("plans", "List the plans, newest first");
  AddList(plans, server, Plans(), chosen);
  AddRemove(
      plans, server,
      {.what = "plan", .id = "PLAN", .remove = &Stub::DeletePlan, .named = {}},
      chosen);
}

}  // namespace ucudnn::ctl
