#include "client/rehearse/report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/plan/prediction.h"
#include "client/cli/command.h"

namespace ucudnn::rehearse {
namespace {

using Json = nlohmann::ordered_json;
using OptionalTime = std::optional<Nanoseconds>;

Json TimeJson(const OptionalTime& time) {
  if (!time) return nullptr;
  return Microseconds(*time);
}

OptionalTime TimeFrom(const Json& json) {
  if (!json.is_number()) return std::nullopt;
  return FromMicroseconds(json.get<double>()).value_or(Nanoseconds(0));
}

OptionalTime Median(const std::optional<Timing>& timing) {
  if (!timing) return std::nullopt;
  return timing->median;
}

Json TimingJson(const std::optional<Timing>& timing) {
  if (!timing) return nullptr;
  return {{"median_us", Microseconds(timing->median)},
          {"spread_us", Microseconds(timing->spread)},
          {"iterations", timing->iterations}};
}

std::optional<Timing> TimingFrom(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  Timing timing;
  timing.median = TimeFrom(json["median_us"]).value_or(Nanoseconds(0));
  timing.spread = TimeFrom(json["spread_us"]).value_or(Nanoseconds(0));
  timing.iterations = json["iterations"];
  return timing;
}

// JSON has no NaN, so an error that is not a number is written as a huge one.
Json ErrorsJson(const std::optional<Errors>& errors) {
  if (!errors) return nullptr;
  Json json = Json::object();
  for (const ConvOp op : kConvOps) {
    const double error = errors->by_op[static_cast<std::size_t>(op)];
    Json& value = json[std::string(Name(op))];
    if (error >= 0) value = error;
    if (std::isnan(error) || std::isinf(error)) value = 1e300;
  }
  Json& value = json["winograd_beyond_3x3"];
  if (errors->large_winograd >= 0) value = errors->large_winograd;
  if (!std::isfinite(errors->large_winograd)) value = 1e300;
  return json;
}

std::optional<Errors> ErrorsFrom(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  Errors errors;
  for (const ConvOp op : kConvOps) {
    const Json& value = json[std::string(Name(op))];
    if (value.is_number()) {
      errors.by_op[static_cast<std::size_t>(op)] = value.get<double>();
    }
  }
  const Json& value = json["winograd_beyond_3x3"];
  if (value.is_number()) errors.large_winograd = value.get<double>();
  return errors;
}

OptionalTime Slower(const OptionalTime& a, const OptionalTime& b) {
  if (!a || !b) return std::nullopt;
  return std::max(*a, *b);
}

// The plan's speed-up: the undivided time, measured if possible, over the
// plan's.
std::optional<double> Gain(const OptionalTime& measured,
                           const OptionalTime& undivided_measured,
                           const OptionalTime& undivided_predicted) {
  const OptionalTime& whole =
      undivided_measured ? undivided_measured : undivided_predicted;
  if (!measured || !whole || measured->count() == 0) return std::nullopt;
  return static_cast<double>(whole->count()) /
         static_cast<double>(measured->count());
}

std::string TimeCell(const OptionalTime& time) {
  return time ? HumanTime(*time) : "-";
}

std::string PercentCell(const std::optional<double>& part) {
  return part ? fmt::format("{:+.1f} %", 100 * *part) : "-";
}

// The processors of the rank's machine that others than the ranks kept busy.
double Others(const std::vector<RankReport>& ranks, const RankReport& rank) {
  double others = rank.host_load->load;
  for (const RankReport& other : ranks) {
    if (other.host_load && other.host == rank.host) {
      others -= other.host_load->own;
    }
  }
  return others;
}

// Whether others took so much that nothing that was measured can be compared.
bool OnBusyHost(const std::vector<RankReport>& ranks, const RankReport& rank) {
  constexpr double kMost = 0.1;
  return rank.host_load && Others(ranks, rank) > kMost * rank.host_load->cores;
}

std::string DeviationCell(const std::optional<double>& deviation, bool busy) {
  return busy ? "not comparable" : PercentCell(deviation);
}

Json LoadJson(const std::optional<HostLoad>& host) {
  if (!host) return nullptr;
  return {{"load", host->load}, {"own", host->own}, {"cores", host->cores}};
}

std::optional<HostLoad> LoadFrom(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  return HostLoad{
      .load = json["load"], .own = json["own"], .cores = json["cores"]};
}

// A line for each machine that others kept busy.
std::string BusyHosts(const std::vector<RankReport>& ranks) {
  std::set<std::string> reported;
  std::string text;
  for (const RankReport& rank : ranks) {
    if (!OnBusyHost(ranks, rank) || !reported.insert(rank.host).second)
      continue;
    text += fmt::format(
        "{}: this machine is busy (others used {:.1f} of {} cores): measured "
        "times are not comparable with predicted ones\n",
        rank.host, Others(ranks, rank), rank.host_load->cores);
  }
  return text;
}

std::string GainCell(const std::optional<double>& gain) {
  return gain ? fmt::format("{:.2f} x", *gain) : "-";
}

Json Optional(const std::optional<double>& value) {
  if (!value) return nullptr;
  return *value;
}

Json ToJson(const RankReport& rank) {
  const OptionalTime measured = Median(rank.measured);
  return {{"host", rank.host},
          {"device_id", rank.device_id},
          {"device_kind", rank.device_kind},
          {"driver", rank.driver},
          {"batch", rank.batch.count()},
          {"weight", rank.weight},
          {"predicted_us", TimeJson(rank.predicted)},
          {"measured", TimingJson(rank.measured)},
          {"deviation", Optional(Deviation(rank.predicted, measured))},
          {"undivided_predicted_us", TimeJson(rank.undivided_predicted)},
          {"undivided_measured", TimingJson(rank.undivided_measured)},
          {"gain", Optional(Gain(measured, Median(rank.undivided_measured),
                                 rank.undivided_predicted))},
          {"relative_errors", ErrorsJson(rank.errors)},
          {"in_turns", rank.in_turns},
          {"host_load", LoadJson(rank.host_load)},
          {"fallbacks", rank.fallbacks}};
}

}  // namespace

std::string Encode(const RankReport& report) {
  return ToJson(report).dump(-1, ' ', false, Json::error_handler_t::replace);
}

RankReport DecodeRankReport(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  RankReport rank;
  if (!json.is_object()) return rank;
  rank.host = json["host"];
  rank.device_id = json["device_id"];
  rank.device_kind = json["device_kind"];
  rank.driver = json["driver"];
  rank.batch = BatchSize(json["batch"].get<std::int64_t>());
  rank.weight = json["weight"];
  rank.predicted = TimeFrom(json["predicted_us"]);
  rank.measured = TimingFrom(json["measured"]);
  rank.undivided_predicted = TimeFrom(json["undivided_predicted_us"]);
  rank.undivided_measured = TimingFrom(json["undivided_measured"]);
  rank.errors = ErrorsFrom(json["relative_errors"]);
  rank.in_turns = json["in_turns"];
  rank.host_load = LoadFrom(json["host_load"]);
  rank.fallbacks = json["fallbacks"].get<std::vector<std::string>>();
  return rank;
}

bool Comparable(const Report& report) {
  return std::ranges::none_of(report.ranks, [&](const RankReport& rank) {
    return OnBusyHost(report.ranks, rank);
  });
}

std::optional<double> Deviation(std::optional<Nanoseconds> predicted,
                                std::optional<Nanoseconds> measured) {
  if (!predicted || !measured || predicted->count() == 0) return std::nullopt;
  return static_cast<double>(measured->count()) /
             static_cast<double>(predicted->count()) -
         1;
}

Total TotalOf(const Report& report) {
  Total total;
  total.predicted = total.measured = Nanoseconds(0);
  total.undivided_predicted = total.undivided_measured = Nanoseconds(0);
  for (const RankReport& rank : report.ranks) {
    if (rank.batch == BatchSize(0)) continue;
    total.predicted = Slower(total.predicted, rank.predicted);
    total.measured = Slower(total.measured, Median(rank.measured));
    total.undivided_predicted =
        Slower(total.undivided_predicted, rank.undivided_predicted);
    total.undivided_measured =
        Slower(total.undivided_measured, Median(rank.undivided_measured));
    if (!rank.errors) continue;
    total.checked = true;
    if (!rank.errors->Within(report.tolerance)) total.passed = false;
  }
  return total;
}

Json ToJson(const Report& report) {
  Json ranks = Json::array();
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    Json rank = {{"rank", r}};
    rank.update(ToJson(report.ranks[r]));
    ranks.push_back(std::move(rank));
  }
  const Total total = TotalOf(report);
  return {{"network", report.network},
          {"batch", report.batch.count()},
          {"plan", report.plan_id},
          {"source", Name(report.source)},
          {"reason", report.reason},
          {"predicted_us", TimeJson(total.predicted)},
          {"measured_us", TimeJson(total.measured)},
          {"deviation", Optional(Deviation(total.predicted, total.measured))},
          {"comparable", Comparable(report)},
          {"undivided_predicted_us", TimeJson(total.undivided_predicted)},
          {"undivided_measured_us", TimeJson(total.undivided_measured)},
          {"gain", Optional(Gain(total.measured, total.undivided_measured,
                                 total.undivided_predicted))},
          {"checked", total.checked},
          {"passed", total.passed},
          {"tolerance", report.tolerance},
          {"ranks", std::move(ranks)}};
}

std::string ToTable(const Report& report) {
  const Total total = TotalOf(report);
  std::string text = fmt::format(
      "{}, batch {} over {} rank{}; {}\n", report.network, report.batch.count(),
      report.ranks.size(), report.ranks.size() == 1 ? "" : "s", report.reason);
  const bool compared = std::any_of(
      report.ranks.begin(), report.ranks.end(),
      [](const RankReport& rank) { return rank.undivided_measured; });
  std::vector<std::string> header = {
      "RANK",     "DEVICE",    "BATCH",    std::string(kPredictedHeading),
      "MEASURED", "DEVIATION", "UNDIVIDED"};
  if (compared) header.emplace_back("UNDIVIDED MEASURED");
  header.emplace_back("GAIN");
  if (total.checked) header.emplace_back("LARGEST ERROR");
  ctl::Table table(header);
  std::string notes;
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    const RankReport& rank = report.ranks[r];
    const OptionalTime measured = Median(rank.measured);
    std::vector<std::string> row = {
        std::to_string(r),
        rank.device_kind,
        std::to_string(rank.batch.count()),
        TimeCell(rank.predicted),
        TimeCell(measured),
        DeviationCell(Deviation(rank.predicted, measured),
                      OnBusyHost(report.ranks, rank)),
        TimeCell(rank.undivided_predicted)};
    if (compared) row.push_back(TimeCell(Median(rank.undivided_measured)));
    row.push_back(GainCell(Gain(measured, Median(rank.undivided_measured),
                                rank.undivided_predicted)));
    if (total.checked) {
      row.push_back(rank.errors ? fmt::format("{:.1e}", rank.errors->largest())
                                : "-");
    }
    table.AddRow(std::move(row));
    if (rank.in_turns) {
      notes +=
          fmt::format("rank {} shares device {} and was measured in turn\n", r,
                      rank.device_id);
    }
    for (const std::string& fallback : rank.fallbacks) {
      notes += fmt::format("rank {}: {}\n", r, fallback);
    }
  }
  std::vector<std::string> row = {
      "all",
      "the slowest rank",
      std::to_string(report.batch.count()),
      TimeCell(total.predicted),
      TimeCell(total.measured),
      DeviationCell(Deviation(total.predicted, total.measured),
                    !Comparable(report)),
      TimeCell(total.undivided_predicted)};
  if (compared) row.push_back(TimeCell(total.undivided_measured));
  row.push_back(GainCell(Gain(total.measured, total.undivided_measured,
                              total.undivided_predicted)));
  if (total.checked) row.emplace_back(total.passed ? "passed" : "FAILED");
  table.AddRow(std::move(row));
  return text + table.Text() + notes + BusyHosts(report.ranks);
}

}  // namespace ucudnn::rehearse
