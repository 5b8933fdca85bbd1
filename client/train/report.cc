#include "client/train/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/median.h"
#include "base/text.h"
#include "client/cli/command.h"
#include "client/train/times_json.h"

namespace ucudnn::train {
namespace {

using Json = nlohmann::ordered_json;
using Times = std::vector<Nanoseconds>;

// Null if there is none.
Json MedianIn(const Times& times) {
  if (times.empty()) return nullptr;
  return Microseconds(MedianAndSpreadOf(times).median);
}

bool Trains(const RankReport& rank) { return rank.shown["batch"] != 0; }

// A number of microseconds, or "-".
std::string Shown(const Json& time) {
  if (!time.is_number()) return "-";
  return HumanTime(Nanoseconds(std::llround(1e3 * time.get<double>())));
}

std::string Size(const Json& bytes) {
  return bytes.is_number() ? HumanBytes(Bytes(bytes.get<std::int64_t>())) : "-";
}

std::string Deviation(const Json& predicted, const Json& measured) {
  if (!predicted.is_number() || predicted == 0) return "-";
  return fmt::format(
      "{:+.1f} %",
      100 * (measured.get<double>() / predicted.get<double>() - 1));
}

// The processors of the rank's machine that others than the job's ranks kept
// busy, if they took so much that measured times tell little.
double TakenByOthers(const Report& report, const Json& rank) {
  constexpr double kMost = 0.1;
  if (!rank.contains("host_load")) return 0;
  double others = rank["host_load"]["load"];
  for (const RankReport& other : report.ranks) {
    if (other.shown.contains("host_load") &&
        other.shown["host"] == rank["host"]) {
      others -= other.shown["host_load"]["own"].get<double>();
    }
  }
  const double cores = rank["host_load"]["cores"];
  return others > kMost * cores ? others : 0;
}

// A line for each machine that others kept busy.
std::string BusyHosts(const Report& report) {
  std::map<std::string, std::string> texts;
  for (const RankReport& rank : report.ranks) {
    const double others = TakenByOthers(report, rank.shown);
    if (others == 0) continue;
    const std::string host = rank.shown["host"];
    texts[host] = fmt::format(
        "{}: this machine is busy (others used {:.1f} of {} cores): measured "
        "times are not comparable with predicted ones\n",
        host, others, rank.shown["host_load"]["cores"].dump());
  }
  std::string text;
  for (const auto& [host, line] : texts) text += line;
  return text;
}

std::string Stalls(const Json& rank) {
  Nanoseconds sum{0};
  for (const Json& time : rank["stalls_us"]) {
    sum += Nanoseconds(std::llround(1e3 * time.get<double>()));
  }
  return HumanTime(sum);
}

// What became of a rank's --streams.
std::string StreamLine(std::size_t rank, const Json& streams) {
  std::string line =
      fmt::format("rank {}: {} of {} streams kept", rank,
                  streams["kept"].dump(), streams["asked"].dump());
  if (streams["alone_us"].is_number()) {
    line += fmt::format(": passes take {} with 1, {} with {}",
                        Shown(streams["alone_us"]),
                        Shown(streams["together_us"]), streams["asked"].dump());
  } else {
    line += ": " + streams["why"].get<std::string>();
  }
  return line + "\n";
}

std::string OperatorTable(const Report& report) {
  ctl::Table table({"RANK", "OPERATOR", "TASKS", "PREDICTED", "MEASURED"});
  bool any = false;
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    const Json& rank = report.ranks[r].shown;
    if (!rank.contains("task_times")) continue;
    any = true;
    for (const Json& time : rank["task_times"]["operators"]) {
      table.AddRow({std::to_string(r), time["operator"], time["tasks"].dump(),
                    Shown(time["predicted_us"]), Shown(time["us"])});
    }
  }
  return any ? "\n" + table.Text() : "";
}

}  // namespace

std::string Encode(const RankReport& report) {
  const Json json = {{"shown", report.shown},
                     {"passes", Counts(report.passes)},
                     {"times", Counts(report.times)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

RankReport DecodeRankReport(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  UCUDNN_CHECK(json.is_object());
  return {json["shown"], TimesOf(json["passes"]), TimesOf(json["times"])};
}

Times SlowestPasses(const Report& report) {
  Times slowest;
  for (const RankReport& rank : report.ranks) {
    slowest.resize(std::max(slowest.size(), rank.passes.size()));
    for (std::size_t i = 0; i < rank.passes.size(); ++i) {
      slowest[i] = std::max(slowest[i], rank.passes[i]);
    }
  }
  return slowest;
}

Times Exchanges(const Report& report) {
  Times shortest(SlowestPasses(report).size(), Nanoseconds::max());
  for (const RankReport& rank : report.ranks) {
    for (std::size_t i = 0; i < rank.passes.size(); ++i) {
      shortest[i] = std::min(shortest[i], rank.times[i] - rank.passes[i]);
    }
  }
  return shortest;
}

Json ToJson(const Report& report) {
  Json json;
  json["network"] = report.network;
  json["precision"] = Name(report.precision);
  json["batch"] = report.batch.count();
  json["split"] = report.split;
  json["plan"] = report.plan_id;
  json["source"] = report.source;
  json["reason"] = report.reason;
  json["sum_method"] = report.sum_method;
  json["losses_depend_on_shares"] = report.statistics_of_parts;
  json["in_turns"] = report.in_turns;
  json["share_device"] = report.share_device;
  json["comparable"] = BusyHosts(report).empty();
  json["interrupted"] = report.interrupted;
  json["first_step"] = report.first_step;
  json["steps"] = report.losses.size();
  json["predicted_us"] = nullptr;
  if (report.predicted) json["predicted_us"] = Microseconds(*report.predicted);
  json["passes_us"] = MedianIn(SlowestPasses(report));
  json["exchange_us"] = MedianIn(Exchanges(report));
  json["step_us"] = report.in_turns ? Json(nullptr) : MedianIn(report.steps);
  json["losses"] = report.losses;
  if (const Evaluation& all = report.evaluation; all.labels > 0) {
    const auto labels = static_cast<double>(all.labels);
    json["evaluation"] = {
        {"labels", all.labels},
        {"loss", all.loss / labels},
        {"accuracy", static_cast<double>(all.correct) / labels}};
  }
  json["ranks"] = Json::array();
  for (const RankReport& rank : report.ranks) {
    json["ranks"].push_back(rank.shown);
  }
  return json;
}

std::string ToTable(const Report& report) {
  ctl::Table table({"RANK", "DEVICE", "BATCH", "BUDGET", "PEAK", "TO HOST",
                    "PREDICTED", "PASSES", "DEVIATION", "STALLS"});
  std::string details;
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    const Json& rank = report.ranks[r].shown;
    if (Trains(report.ranks[r])) {
      table.AddRow(
          {std::to_string(r), rank["device_kind"], rank["batch"].dump(),
           Size(rank["budget_bytes"]), Size(rank["peak_bytes"]),
           Size(rank["offloaded_bytes"]), Shown(rank["predicted_passes_us"]),
           Shown(rank["passes_us"]),
           TakenByOthers(report, rank) > 0
               ? "not comparable"
               : Deviation(rank["predicted_passes_us"], rank["passes_us"]),
           Stalls(rank)});
    } else {
      table.AddRow({std::to_string(r), rank["device_kind"], "0", "-", "-", "-",
                    "-", "-", "-", "-"});
    }
    if (const std::string why = rank.value("why", ""); !why.empty()) {
      details += fmt::format("rank {}: {}\n", r, why);
    }
    if (rank.contains("streams")) details += StreamLine(r, rank["streams"]);
    if (rank.value("cut_off", false)) {
      details += fmt::format(
          "rank {}: the search was cut off by its time limit; another may find "
          "a faster plan\n",
          r);
    }
  }
  const Json json = ToJson(report);
  std::string text = fmt::format(
      "{}, batch {} over {} ranks ({}): {}\n\n", report.network,
      report.batch.count(), report.ranks.size(),
      report.split == "planned" ? report.source : report.split + " shares",
      report.reason);
  text += table.Text() + OperatorTable(report) + "\n" + details;
  text += BusyHosts(report);
  if (report.share_device && !report.in_turns) {
    text +=
        "ranks share a device and exchange statistics within their passes, so "
        "they take no turns: passes are slower than planned\n";
  }
  text += fmt::format(
      "slowest rank's passes {}, exchange of gradients after them {}, step "
      "{}; predicted {}\n",
      Shown(json["passes_us"]), Shown(json["exchange_us"]),
      report.in_turns ? "- (ranks compute in turns)" : Shown(json["step_us"]),
      Shown(json["predicted_us"]));
  if (!report.sum_method.empty()) {
    text += fmt::format("gradients are summed by {}\n", report.sum_method);
  }
  if (report.statistics_of_parts) {
    text +=
        "normalisations take statistics over parts of the mini-batch: losses "
        "depend on the shares\n";
  }
  if (!report.losses.empty()) {
    text += fmt::format("loss {:.6g} at step {}, {:.6g} at step {}{}\n",
                        report.losses.front(), report.first_step,
                        report.losses.back(),
                        report.first_step + std::ssize(report.losses) - 1,
                        report.interrupted ? ", then interrupted" : "");
  }
  if (json.contains("evaluation")) {
    const Json& all = json["evaluation"];
    text += fmt::format("evaluated: loss {:.6g}, {:.1f} % of {} labels right\n",
                        all["loss"].get<double>(),
                        100 * all["accuracy"].get<double>(),
                        report.evaluation.labels);
  }
  return text;
}

}  // namespace ucudnn::train
