// `ucudnn explain`: kernel by kernel, why a plan is as it is.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/plan/plan.h"
#include "base/plan/prediction.h"
#include "client/cli/explanation.h"
#include "client/cli/profile_options.h"
#include "client/cli/server/server.h"
#include "proto/convert.h"
#include "proto/convert_plan.h"

namespace ucudnn::ctl {
namespace {

using Json = nlohmann::ordered_json;

// A rank's kernels; other ranks with the same kind and batch run the same.
struct ExplainedRank {
  std::string kind;
  BatchSize batch;
  Nanoseconds time{0};   // of the plan
  Nanoseconds other{0};  // its part that is not kernels
  std::vector<ExplainedKernel> kernels = {};
};

struct Explanation {
  Bytes limit;              // of each kernel
  bool concurrent = false;  // of all, divided among those that run at once
  Nanoseconds predicted{0};
  Nanoseconds convolutions{0};  // of the rank whose convolutions take longest
  std::vector<ExplainedRank> ranks = {};
  std::vector<OneMore> one_more = {};
};

// Asks the coordinator for each problem's measurements once.
class Measurements {
 public:
  explicit Measurements(Connection& connection) : connection_(connection) {}

  Result<std::vector<MeasuredPoint>> Of(const std::string& kind,
                                        const std::string& problem) {
    const auto known = known_.find({kind, problem});
    if (known != known_.end()) return known->second;
    v1::GetProblemProfileRequest request;
    request.set_kind(kind);
    request.set_problem(problem);
    UCUDNN_ASSIGN_OR_RETURN(
        const v1::ProblemProfile profile,
        connection_.Call(&Stub::GetProblemProfile, request));
    std::vector<MeasuredPoint> points;
    for (const v1::Measurement& measurement : profile.measurements()) {
      UCUDNN_ASSIGN_OR_RETURN(points.emplace_back(), FromProto(measurement));
    }
    return known_[{kind, problem}] = std::move(points);
  }

 private:
  Connection& connection_;
  std::map<std::pair<std::string, std::string>, std::vector<MeasuredPoint>>
      known_;
};

double Percent(Nanoseconds part, Nanoseconds whole) {
  return whole.count() == 0 ? 0
                            : 100 * static_cast<double>(part.count()) /
                                  static_cast<double>(whole.count());
}

std::string Change(Nanoseconds time, Nanoseconds planned) {
  return fmt::format("{:+.1f} %", Percent(time - planned, planned));
}

Json AlternativeJson(const std::optional<Alternative>& alternative) {
  if (!alternative) return nullptr;
  return {{"workspace_limit_bytes", alternative->limit.count()},
          {"time_us", Microseconds(alternative->time)},
          {"division", alternative->division}};
}

Json SegmentJson(const ExplainedKernel& kernel) {
  if (!kernel.segment) return nullptr;
  return {{"offset_bytes", kernel.segment->offset.count()},
          {"workspace_bytes", kernel.segment->size.count()},
          {"beside", kernel.segment->beside}};
}

Json InexactJson(const std::optional<LeftOut>& inexact) {
  if (!inexact) return nullptr;
  Json algorithms = Json::array();
  for (const auto& [algorithm, error] : inexact->errors) {
    algorithms.push_back({{"algorithm", algorithm.name},
                          {"math", algorithm.math},
                          {"error", error}});
  }
  return {{"algorithms", std::move(algorithms)},
          {"faster_with", AlternativeJson(inexact->with)}};
}

Json KernelJson(const ExplainedKernel& kernel) {
  return {{"layer", kernel.layer},
          {"op", Name(kernel.op)},
          {"division", kernel.division},
          {"time_us", Microseconds(kernel.time)},
          {"larger_limit", AlternativeJson(kernel.more)},
          {"less_workspace", AlternativeJson(kernel.fewer)},
          {"runner_up", AlternativeJson(kernel.runner_up)},
          {"twice_the_limit", AlternativeJson(kernel.doubled)},
          {"scattered", AlternativeJson(kernel.scattered)},
          {"segment", SegmentJson(kernel)},
          {"inexact", InexactJson(kernel.inexact)}};
}

Json ExplanationJson(const Explanation& explanation) {
  Json ranks = Json::array();
  for (const ExplainedRank& rank : explanation.ranks) {
    Json kernels = Json::array();
    for (const ExplainedKernel& kernel : rank.kernels) {
      kernels.push_back(KernelJson(kernel));
    }
    ranks.push_back({{"device_kind", rank.kind},
                     {"batch", rank.batch.count()},
                     {"other_time_us", Microseconds(rank.other)},
                     {"kernels", std::move(kernels)}});
  }
  Json more = Json::array();
  for (const OneMore& one : explanation.one_more) {
    Json shares = Json::array();
    for (const BatchSize share : one.shares) shares.push_back(share.count());
    more.push_back({{"device_kind", one.kind},
                    {"time_us", Microseconds(one.time)},
                    {"shares", std::move(shares)}});
  }
  // What one more GPU is compared with.
  return {{"predicted_us", Microseconds(explanation.predicted)},
          {"convolutions_us", Microseconds(explanation.convolutions)},
          {"ranks", std::move(ranks)},
          {"one_more_gpu", std::move(more)}};
}

// Who has which bytes of the total, where several kernels may run at once.
std::string SegmentsText(const std::vector<ExplainedKernel>& kernels) {
  Table table({"LAYER", "OP", "FROM", "BYTES", "MAY RUN BESIDE"});
  for (const ExplainedKernel& kernel : kernels) {
    if (!kernel.segment) continue;
    table.AddRow({kernel.layer, std::string(Name(kernel.op)),
                  FormatBytes(kernel.segment->offset),
                  FormatBytes(kernel.segment->size),
                  fmt::format("{} others", kernel.segment->beside.size())});
  }
  return "segments of kernels that may run at once; the others may use all\n" +
         table.Text();
}

// How many kernels the limit binds, and what twice of it would bring them.
std::string BindingText(const std::vector<ExplainedKernel>& kernels) {
  std::size_t bound = 0;
  Nanoseconds planned{0};
  Nanoseconds doubled{0};
  for (const ExplainedKernel& kernel : kernels) {
    if (kernel.more) ++bound;
    planned += kernel.time;
    doubled += kernel.doubled ? kernel.doubled->time : kernel.time;
  }
  if (bound == 0)
    return "the limit binds no kernel: more workspace is no use\n";
  return fmt::format(
      "the limit binds {} of {} kernels; with twice of it they all take {} "
      "instead of {} ({})\n",
      bound, kernels.size(), HumanTime(doubled), HumanTime(planned),
      Change(doubled, planned));
}

std::string ScatterText(const std::vector<ExplainedKernel>& kernels) {
  std::string text;
  for (const ExplainedKernel& kernel : kernels) {
    if (!kernel.scattered) continue;
    text += fmt::format(
        "{} {} stays undivided: {} would take {} by the medians, but the "
        "repeats scatter by more than it gains\n",
        OneLine(kernel.layer), Name(kernel.op), kernel.scattered->division,
        HumanTime(kernel.scattered->time));
  }
  if (text.empty()) return text;
  return text +
         "To have these divided, lock the device's clocks (GPUs: nvidia-smi "
         "-ac), keep other work off it, and restart ucudnn-agent: measurements "
         "under other clocks are stale, and the next plan measures anew.\n";
}

// What is too inexact, and what it would gain.
std::string InexactText(const std::vector<ExplainedKernel>& kernels) {
  std::string text;
  for (const ExplainedKernel& kernel : kernels) {
    if (!kernel.inexact) continue;
    std::vector<std::string> names;
    for (const auto& [algorithm, error] : kernel.inexact->errors) {
      names.push_back(
          fmt::format("{} (error {:.1e})", OneLine(algorithm.name), error));
    }
    const auto& with = kernel.inexact->with;
    text += fmt::format(
        "{} {} does without {}: {}\n", OneLine(kernel.layer), Name(kernel.op),
        fmt::join(names, ", "),
        with ? fmt::format("with that {} instead of {} ({}) by {}",
                           HumanTime(with->time), HumanTime(kernel.time),
                           Change(with->time, kernel.time), with->division)
             : "that would gain nothing");
  }
  if (text.empty()) return text;
  return text +
         "Errors are relative to a result's largest element; `ucudnn plan "
         "--max-error` admits larger ones.\n";
}

std::string KernelsText(const std::vector<ExplainedKernel>& kernels) {
  Table table({"LAYER", "OP", "MICRO-BATCHES", "TIME", "RUNNER-UP",
               "A LARGER LIMIT", "TWICE THE LIMIT"});
  for (const ExplainedKernel& kernel : kernels) {
    table.AddRow(
        {kernel.layer, std::string(Name(kernel.op)), kernel.division,
         HumanTime(kernel.time),
         kernel.runner_up
             ? fmt::format("{} by {}",
                           Change(kernel.runner_up->time, kernel.time),
                           kernel.runner_up->division)
             : "-",
         kernel.more
             ? fmt::format("{} with {}", Change(kernel.more->time, kernel.time),
                           HumanBytes(kernel.more->limit))
             : "-",
         kernel.doubled ? Change(kernel.doubled->time, kernel.time) : "-"});
  }
  return table.Text() + BindingText(kernels) + ScatterText(kernels) +
         InexactText(kernels);
}

std::string ExplanationText(const Explanation& explanation) {
  std::string text;
  for (const ExplainedRank& rank : explanation.ranks) {
    text += fmt::format("{}{} images on {}, {} {}\n", text.empty() ? "" : "\n",
                        rank.batch.count(), OneLine(rank.kind),
                        HumanBytes(explanation.limit),
                        explanation.concurrent ? "divided among kernels"
                                               : "for each kernel") +
            KernelsText(rank.kernels);
    if (rank.other > Nanoseconds(0)) {
      text += fmt::format(
          "tasks other than convolutions take {} of its step's {} ({:.1f} %)\n",
          HumanTime(rank.other), HumanTime(rank.time),
          Percent(rank.other, rank.time));
    }
    if (explanation.concurrent) text += SegmentsText(rank.kernels);
  }
  text += "\n";
  for (const OneMore& one : explanation.one_more) {
    std::vector<std::int64_t> shares;
    for (const BatchSize share : one.shares) shares.push_back(share.count());
    text += fmt::format(
        "one more {}: {} {} instead of {} ({}), with shares of {} images\n",
        OneLine(one.kind), kPredicted, HumanTime(one.time),
        HumanTime(explanation.convolutions),
        Change(one.time, explanation.convolutions), fmt::join(shares, ", "));
  }
  if (explanation.one_more.empty()) {
    text +=
        "what one more GPU would bring is not known: no smaller shares were "
        "measured; `ucudnn plan --ranks` has them measured\n";
  }
  if (explanation.convolutions == explanation.predicted) {
    text += fmt::format("{}\n", kConvolutionsNote);
  }
  return text;
}

// The time of tasks that run more than once in a round, beyond their first run;
// null if the plan has no events.
Json ComputedAgain(const Json& memory) {
  if (!memory.is_object() || !memory.contains("rounds")) return nullptr;
  double again = 0;
  for (const Json& round : memory["rounds"]) {
    std::set<std::string> ran;
    for (const Json& event : round["events"]) {
      if (event.value("op", "") != "compute") continue;
      if (ran.insert(event["task"]).second) continue;
      again += event["dur_us"].get<double>() * round.value("count", 1);
    }
  }
  return again;
}

// What a rank's memory plan does to stay within its budget, and what that costs
// it: an iteration with all memory, and every task at its fastest, takes
// `ideal`. Members that plans of older versions lack are null.
Json MemoryExplanationJson(const JobPlan& plan) {
  Json ranks = Json::array();
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const RankPlan& rank = plan.ranks[r];
    Json& json = ranks.emplace_back(
        Json{{"rank", r},
             {"device_kind", rank.device_kind},
             {"batch", rank.batch.count()},
             {"time_us", Microseconds(rank.workspace->total_time)},
             {"why", rank.reason}});
    if (rank.memory) {
      json["budget_bytes"] = rank.memory->budget.count();
      json["peak_bytes"] = rank.memory->peak.count();
    }
    const DeviceMemoryPlan* const of_rank = MemoryPlanOf(plan, r);
    if (of_rank == nullptr) continue;
    const Json memory = Json::parse(of_rank->plan, nullptr, false);
    for (const char* member :
         {"budget_bytes", "peak_bytes", "ideal_time_us", "ideal_bytes",
          "stall_us", "offloaded_bytes", "prefetched_bytes", "sub_batch"}) {
      json[member] = memory.is_object() && memory.contains(member)
                         ? memory[member]
                         : Json(nullptr);
    }
    json["computed_again_us"] = ComputedAgain(memory);
  }
  return {{"predicted_us", Microseconds(plan.predicted)},
          {"lower_bound_us", Microseconds(plan.lower_bound)},
          {"ranks", std::move(ranks)},
          {"reasons", plan.reasons}};
}

std::string MemoryExplanationText(const JobPlan& plan) {
  const Json explanation = MemoryExplanationJson(plan);
  const auto size = [](const Json& rank, const char* member) {
    return rank.contains(member) && rank[member].is_number_integer()
               ? HumanBytes(Bytes(rank[member].get<std::int64_t>()))
               : "-";
  };
  const auto time = [](const Json& rank, const char* member) {
    return rank.contains(member) && rank[member].is_number()
               ? HumanTime(Nanoseconds(
                     std::llround(rank[member].get<double>() * 1000)))
               : "-";
  };
  Table table({"RANK", "DEVICE KIND", "BUDGET", "PEAK", "WHOLE", "BATCH",
               "TIME", "WITH ALL MEMORY", "WAITS", "COMPUTED AGAIN", "TO HOST",
               "WHY"});
  for (const Json& rank : explanation["ranks"]) {
    table.AddRow({rank["rank"].dump(), rank["device_kind"],
                  size(rank, "budget_bytes"), size(rank, "peak_bytes"),
                  size(rank, "ideal_bytes"), rank["batch"].dump(),
                  time(rank, "time_us"), time(rank, "ideal_time_us"),
                  time(rank, "stall_us"), time(rank, "computed_again_us"),
                  size(rank, "offloaded_bytes"), rank["why"]});
  }
  return table.Text() + Lines(plan.reasons);
}

// The kernels of an iteration as measured on a kind, as far as plans for the
// request may use it.
Result<Profile> KernelsOn(const JobRequest& request, const std::string& kind,
                          const std::vector<KernelPlan>& kernels,
                          Measurements& measurements) {
  Profile profile;
  for (const KernelPlan& kernel : kernels) {
    if (!kernel.problem) continue;
    KernelProfile& measured = profile.kernels.emplace_back();
    measured.id.layer = kernel.layer;
    measured.id.op = kernel.op;
    UCUDNN_ASSIGN_OR_RETURN(measured.points,
                            measurements.Of(kind, ToString(*kernel.problem)));
    LeaveOutInexact(request.precision, request.max_error, &measured.points);
  }
  return profile;
}

Result<ExplainedRank> ExplainRank(const JobRequest& request,
                                  const RankPlan& rank,
                                  Measurements& measurements) {
  ExplainedRank explained{.kind = rank.device_kind,
                          .batch = rank.batch,
                          .time = rank.workspace->total_time,
                          .other = rank.workspace->other_time};
  const WorkspacePlan& plan = rank.workspace;
  const auto segments = SegmentsOf(plan);
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const KernelPlan& kernel = plan.kernels[k];
    if (!kernel.problem) continue;
    UCUDNN_ASSIGN_OR_RETURN(
        std::vector<MeasuredPoint> points,
        measurements.Of(rank.device_kind, ToString(*kernel.problem)));
    const std::optional<KernelSegment>& segment = segments[k];
    ExplainedKernel& added = explained.kernels.emplace_back();
    UCUDNN_ASSIGN_OR_RETURN(
        added,
        ExplainKernel(std::move(points), rank.batch, request,
                      segment ? segment->size : request.KernelLimit(), kernel));
    added.segment = segment;
  }
  return explained;
}

Result<Explanation> Explain(const JobPlan& plan, Measurements& measurements) {
  Explanation explanation{.limit = plan.request.KernelLimit(),
                          .concurrent = plan.request.concurrent,
                          .predicted = plan.predicted};
  std::set<std::pair<std::string, BatchSize>> shown;
  std::map<std::string, Profile> kernels;
  std::optional<Concurrency> concurrency;
  for (const RankPlan& rank : plan.ranks) {
    explanation.convolutions =
        std::max(explanation.convolutions,
                 rank.workspace->total_time - rank.workspace->other_time);
    if (rank.batch == BatchSize(0) ||
        !shown.emplace(rank.device_kind, rank.batch).second) {
      continue;
    }
    UCUDNN_ASSIGN_OR_RETURN(explanation.ranks.emplace_back(),
                            ExplainRank(plan.request, rank, measurements));
    if (!rank.workspace->concurrency.empty()) {
      UCUDNN_ASSIGN_OR_RETURN(concurrency,
                              ParseConcurrency(rank.workspace->concurrency,
                                               rank.workspace->kernels.size()));
    }
    if (kernels.contains(rank.device_kind)) continue;
    UCUDNN_ASSIGN_OR_RETURN(kernels[rank.device_kind],
                            KernelsOn(plan.request, rank.device_kind,
                                      rank.workspace->kernels, measurements));
  }
  explanation.one_more = WithOneMoreGpu(plan.request, kernels, concurrency);
  return explanation;
}

Status ExplainPlan(const Server& server, const std::string& id,
                   OutputFormat format) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  UCUDNN_ASSIGN_OR_RETURN(const v1::Plan message,
                          connection->Call(&Stub::GetPlan, ById(id)));
  UCUDNN_ASSIGN_OR_RETURN(const JobPlan plan, FromProto(message));
  if (plan.request.memory) {
    return Print(format, MemoryExplanationJson(plan),
                 [&] { return MemoryExplanationText(plan); });
  }
  if (!plan.request.step.empty()) {
    return Print(format, MemoryExplanationJson(plan),
                 [&] { return PlanText(message); });
  }
  Measurements measurements(*connection);
  UCUDNN_ASSIGN_OR_RETURN(const Explanation explanation,
                          Explain(plan, measurements));
  return Print(format, ExplanationJson(explanation),
               [&] { return ExplanationText(explanation); });
}

}  // namespace

void AddExplainCommand(CLI::App& app, const Server& server, Chosen* chosen) {
  const auto id = std::make_shared<std::string>();
  const auto format = std::make_shared<OutputFormat>(OutputFormat::kTable);
  CLI::App* explain = app.add_subcommand(
      "explain",
      "Say why a plan is as it is. Of kernels: what binds, what comes next, "
      "and "
      "what a larger limit or one more GPU would bring, by the measurements "
      "known now. Of memory plans: why each rank has its share, and what its "
      "budget costs it");
  explain->add_option("PLAN", *id, "The plan; see `ucudnn plans`")->required();
  AddOutputOption(explain, format.get());
  OnChosen(explain, chosen,
           [&server, id, format] { return ExplainPlan(server, *id, *format); });
}

}  // namespace ucudnn::ctl
