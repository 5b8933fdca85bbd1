// `ucudnn explain`: kernel by kernel, why a plan is as it is.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/plan/plan.h"
#include "client/cli/profile_options.h"
#include "client/cli/server.h"
#include "proto/convert.h"
#include "solver/micro_batch/pareto.h"

namespace ucudnn::ctl {
namespace {

// Another division of a kernel's mini-batch than the planned one.
struct Alternative {
  Bytes limit;  // the least under which it would be planned
  Nanoseconds time{0};
  std::string division;
};

struct Explained {
  std::string layer;
  std::string op;
  std::string division;
  Nanoseconds time{0};
  std::optional<Alternative> more;   // the next one that a larger limit allows
  std::optional<Alternative> fewer;  // the best one with less workspace
  std::optional<Alternative> doubled;  // under twice the limit, if faster
  // Faster by its median, but by less than its repeats scatter.
  std::optional<Alternative> scattered;
};

double Percent(Nanoseconds part, Nanoseconds whole) {
  return whole.count() == 0 ? 0
                            : 100 * static_cast<double>(part.count()) /
                                  static_cast<double>(whole.count());
}

Alternative AlternativeAt(const ParetoFront& front, std::size_t i) {
  return {front.LimitOf(i), front.points()[i].time,
          DescribeMicroBatches(front.PlanAt(i))};
}

// Finds the alternatives among the kernel's measured points.
Status Explain(std::vector<MeasuredPoint> points, BatchSize batch,
               BatchPolicy policy, Bytes limit, const KernelPlan& kernel,
               Explained* explained) {
  const WrRequest all{
      .batch = batch, .workspace_limit = Bytes(kMaxCount), .policy = policy};
  UCUDNN_ASSIGN_OR_RETURN(const ParetoFront front, SolvePareto(points, all));
  std::optional<std::size_t> planned;
  std::optional<std::size_t> doubled;
  for (std::size_t i = 0; i < front.points().size(); ++i) {
    if (front.LimitOf(i) <= limit) planned = i;
    if (front.LimitOf(i) <= limit + limit) doubled = i;
  }
  const std::size_t next = planned ? *planned + 1 : 0;
  if (next < front.points().size()) {
    explained->more = AlternativeAt(front, next);
  }
  if (planned && *planned > 0) {
    explained->fewer = AlternativeAt(front, *planned - 1);
  }
  if (doubled && doubled != planned) {
    explained->doubled = AlternativeAt(front, *doubled);
  }
  const bool undivided =
      kernel.micro_batches.size() == 1 && kernel.micro_batches[0].count == 1;
  if (!undivided) return {};
  for (MeasuredPoint& point : points) point.spread = Nanoseconds(0);
  UCUDNN_ASSIGN_OR_RETURN(const ParetoFront medians, SolvePareto(points, all));
  const auto best = medians.FastestWithin(limit);
  if (best && medians.points()[*best].time < kernel.time &&
      medians.PlanAt(*best).front().batch < batch) {
    explained->scattered = AlternativeAt(medians, *best);
  }
  return {};
}

Result<std::vector<MeasuredPoint>> PointsOf(Connection& connection,
                                            const std::string& kind,
                                            const std::string& problem) {
  v1::GetProblemProfileRequest request;
  request.set_kind(kind);
  request.set_problem(problem);
  UCUDNN_ASSIGN_OR_RETURN(const v1::ProblemProfile profile,
                          connection.GetProblemProfile(request));
  std::vector<MeasuredPoint> points;
  for (const v1::Measurement& measurement : profile.measurements()) {
    UCUDNN_ASSIGN_OR_RETURN(points.emplace_back(), FromProto(measurement));
  }
  return points;
}

std::string Change(Nanoseconds time, Nanoseconds planned) {
  return fmt::format("{:+.1f} %", Percent(time - planned, planned));
}

nlohmann::ordered_json AlternativeJson(
    const std::optional<Alternative>& alternative) {
  if (!alternative) return nullptr;
  return {{"workspace_limit_bytes", alternative->limit.count()},
          {"time_us", static_cast<double>(alternative->time.count()) / 1000},
          {"division", alternative->division}};
}

nlohmann::ordered_json ExplainedJson(const Explained& kernel) {
  return {{"layer", kernel.layer},
          {"op", kernel.op},
          {"division", kernel.division},
          {"time_us", static_cast<double>(kernel.time.count()) / 1000},
          {"larger_limit", AlternativeJson(kernel.more)},
          {"less_workspace", AlternativeJson(kernel.fewer)},
          {"twice_the_limit", AlternativeJson(kernel.doubled)},
          {"scattered", AlternativeJson(kernel.scattered)}};
}

std::string ExplainedText(const std::vector<Explained>& kernels) {
  Table table({"LAYER", "OP", "MICRO-BATCHES", "TIME", "A LARGER LIMIT",
               "LESS WORKSPACE", "TWICE THE LIMIT"});
  for (const Explained& kernel : kernels) {
    const auto cell = [&](const std::optional<Alternative>& other) {
      return other ? fmt::format("{} with {}", Change(other->time, kernel.time),
                                 HumanBytes(other->limit))
                   : std::string("-");
    };
    table.AddRow(
        {kernel.layer, kernel.op, kernel.division, HumanTime(kernel.time),
         cell(kernel.more), cell(kernel.fewer),
         kernel.doubled ? Change(kernel.doubled->time, kernel.time) : "-"});
  }
  std::string text = table.Text({.width = TerminalWidth()});
  bool scattered = false;
  for (const Explained& kernel : kernels) {
    if (!kernel.scattered) continue;
    scattered = true;
    text += fmt::format(
        "{} {} stays undivided: {} would take {} by the medians, but the "
        "repeats scatter by more than it gains\n",
        kernel.layer, kernel.op, kernel.scattered->division,
        HumanTime(kernel.scattered->time));
  }
  if (scattered) {
    text +=
        "To have these divided, lock the device's clocks (nvidia-smi -ac), "
        "keep "
        "other work off it, and restart ucudnn-agent: measurements under other "
        "clocks are stale, and the next plan measures anew.\n";
  }
  return text;
}

Status ExplainPlan(const Server& server, const std::string& id,
                   OutputFormat format) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  UCUDNN_ASSIGN_OR_RETURN(const v1::Plan message, connection->GetPlan(id));
  UCUDNN_ASSIGN_OR_RETURN(const JobPlan plan, FromProto(message));
  if (plan.request.memory) {
    return Fail(Code::kInvalidArgument,
                "plan {} is a memory plan; plans of workspaces are explained",
                id);
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::string text;
  std::set<std::pair<std::string, BatchSize>> shown;
  for (const RankPlan& rank : plan.ranks) {
    // Ranks with the same kind and batch run the same kernels.
    if (rank.batch == BatchSize(0) ||
        !shown.emplace(rank.device_kind, rank.batch).second) {
      continue;
    }
    std::vector<Explained> kernels;
    for (const KernelPlan& kernel : rank.workspace.kernels) {
      Explained& explained = kernels.emplace_back();
      explained.layer = kernel.layer;
      explained.op = Name(kernel.op);
      explained.division = DescribeMicroBatches(kernel.micro_batches);
      explained.time = kernel.time;
      if (!kernel.problem) continue;
      UCUDNN_ASSIGN_OR_RETURN(
          std::vector<MeasuredPoint> points,
          PointsOf(*connection, rank.device_kind, ToString(*kernel.problem)));
      UCUDNN_RETURN_IF_ERROR(
          Explain(std::move(points), rank.batch, plan.request.policy,
                  plan.request.KernelLimit(), kernel, &explained));
    }
    auto entries = nlohmann::ordered_json::array();
    for (const Explained& kernel : kernels)
      entries.push_back(ExplainedJson(kernel));
    json.push_back({{"device_kind", rank.device_kind},
                    {"batch", rank.batch.count()},
                    {"kernels", std::move(entries)}});
    text +=
        fmt::format("{}{} images on {}, {} for each kernel\n",
                    text.empty() ? "" : "\n", rank.batch.count(),
                    rank.device_kind, HumanBytes(plan.request.KernelLimit())) +
        ExplainedText(kernels);
  }
  return Print(format, json, [&] { return text; });
}

}  // namespace

void AddExplainCommand(CLI::App& app, const Server& server, Chosen* chosen) {
  const auto id = std::make_shared<std::string>();
  const auto format = std::make_shared<OutputFormat>(OutputFormat::kTable);
  CLI::App* explain = app.add_subcommand(
      "explain",
      "Say kernel by kernel why a plan is as it is: what a larger limit or "
      "less "
      "workspace would bring, by the measurements known now");
  explain->add_option("plan", *id, "The plan; see `ucudnn plans`")
      ->required()
      ->option_text("PLAN");
  AddOutputOption(explain, format.get());
  explain->callback([&server, id, format, chosen] {
    *chosen = [&server, id, format] {
      return ExplainPlan(server, *id, *format);
    };
  });
}

}  // namespace ucudnn::ctl
