#include "client/examples/train/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/median.h"
#include "base/plan/prediction.h"
#include "client/cli/command.h"

namespace ucudnn::train {
namespace {

using Json = nlohmann::ordered_json;
using Time = std::optional<Nanoseconds>;

Json InMicroseconds(const Time& time) {
  return time ? Json(Microseconds(*time)) : Json(nullptr);
}

Json Counts(const std::vector<Nanoseconds>& times) {
  Json json = Json::array();
  for (const Nanoseconds time : times) json.push_back(time.count());
  return json;
}

Json Count(const Time& time) {
  return time ? Json(time->count()) : Json(nullptr);
}

Time TimeOf(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return Nanoseconds(json.get<std::int64_t>());
}

std::string Shown(const Time& time) { return time ? HumanTime(*time) : "-"; }

// The maximum over the ranks; absent if a rank with images has none.
Time Largest(const Report& report, Time RankReport::*member) {
  Time largest;
  for (const RankReport& rank : report.ranks) {
    if (rank.batch == BatchSize(0)) continue;
    const Time& time = rank.*member;
    if (!time) return std::nullopt;
    largest = std::max(largest.value_or(Nanoseconds(0)), *time);
  }
  return largest;
}

std::string Deviation(const Time& predicted, const Time& measured) {
  if (!predicted || !measured || predicted->count() == 0) return "-";
  return fmt::format("{:+.1f} %",
                     100 * (static_cast<double>(measured->count()) /
                                static_cast<double>(predicted->count()) -
                            1));
}

Time TypicalSlowest(const Report& report) {
  return Typical(SlowestPasses(report));
}

}  // namespace

std::string Encode(const RankReport& report) {
  const Json json = {{"host", report.host},
                     {"device_id", report.device_id},
                     {"device_kind", report.device_kind},
                     {"batch", report.batch.count()},
                     {"weight", report.weight},
                     {"predicted", Count(report.predicted)},
                     {"convolutions", Count(report.convolutions)},
                     {"passes", Counts(report.passes)},
                     {"exchanges", Counts(report.exchanges)},
                     {"fallbacks", report.fallbacks}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

RankReport DecodeRankReport(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  UCUDNN_CHECK(json.is_object());
  RankReport report;
  report.host = json["host"];
  report.device_id = json["device_id"];
  report.device_kind = json["device_kind"];
  report.batch = BatchSize(json["batch"].get<std::int64_t>());
  report.weight = json["weight"];
  report.predicted = TimeOf(json["predicted"]);
  report.convolutions = TimeOf(json["convolutions"]);
  for (const Json& time : json["passes"]) {
    report.passes.emplace_back(time.get<std::int64_t>());
  }
  for (const Json& time : json["exchanges"]) {
    report.exchanges.emplace_back(time.get<std::int64_t>());
  }
  report.fallbacks = json["fallbacks"].get<std::vector<std::string>>();
  return report;
}

std::optional<Nanoseconds> Typical(std::vector<Nanoseconds> times) {
  if (times.empty()) return std::nullopt;
  const std::ptrdiff_t first =
      std::min<std::ptrdiff_t>(std::ssize(times) / 2, 3);
  times.erase(times.begin(), times.begin() + first);
  std::sort(times.begin(), times.end());
  return MedianAndSpreadOf(times).median;
}

std::vector<Nanoseconds> SlowestPasses(const Report& report) {
  std::vector<Nanoseconds> slowest(report.losses.size());
  for (const RankReport& rank : report.ranks) {
    for (std::size_t i = 0; i < rank.passes.size() && i < slowest.size(); ++i) {
      slowest[i] = std::max(slowest[i], rank.passes[i]);
    }
  }
  return slowest;
}

std::vector<Nanoseconds> Exchanges(const Report& report) {
  std::vector<Nanoseconds> shortest(report.losses.size(), Nanoseconds::max());
  for (const RankReport& rank : report.ranks) {
    for (std::size_t i = 0; i < rank.exchanges.size() && i < shortest.size();
         ++i) {
      // A rank without images has no passes, so their end does not count.
      if (rank.passes[i] == Nanoseconds(0)) continue;
      shortest[i] = std::min(shortest[i], rank.exchanges[i]);
    }
  }
  return shortest;
}

Json ToJson(const Report& report) {
  Json json;
  json["net"] = report.net;
  json["batch"] = report.batch.count();
  json["split"] = report.even ? "even" : "planned";
  json["plan"] = report.plan_id;
  json["source"] = report.source;
  json["reason"] = report.reason;
  json["sum_method"] = report.sum_method;
  json["in_turns"] = report.in_turns;
  json["interrupted"] = report.interrupted;
  json["first_step"] = report.first_step;
  json["steps"] = report.losses.size();
  json["predicted_us"] =
      InMicroseconds(Largest(report, &RankReport::predicted));
  json["convolutions_us"] =
      InMicroseconds(Largest(report, &RankReport::convolutions));
  json["passes_us"] = InMicroseconds(TypicalSlowest(report));
  json["exchange_us"] = InMicroseconds(Typical(Exchanges(report)));
  json["step_us"] =
      report.in_turns ? Json(nullptr) : InMicroseconds(Typical(report.steps));
  json["losses"] = report.losses;
  json["ranks"] = Json::array();
  for (const RankReport& rank : report.ranks) {
    json["ranks"].push_back(
        {{"host", rank.host},
         {"device_id", rank.device_id},
         {"device_kind", rank.device_kind},
         {"batch", rank.batch.count()},
         {"weight", rank.weight},
         {"predicted_us", InMicroseconds(rank.predicted)},
         {"convolutions_us", InMicroseconds(rank.convolutions)},
         {"passes_us", InMicroseconds(Typical(rank.passes))},
         {"fallbacks", rank.fallbacks}});
  }
  return json;
}

std::string ToTable(const Report& report) {
  ctl::Table table({"RANK", "DEVICE", "BATCH", std::string(kPredictedHeading),
                    "CONVOLUTIONS", "DEVIATION", "BOTH PASSES"});
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    const RankReport& rank = report.ranks[r];
    table.AddRow({std::to_string(r), rank.device_kind,
                  std::to_string(rank.batch.count()), Shown(rank.predicted),
                  Shown(rank.convolutions),
                  Deviation(rank.predicted, rank.convolutions),
                  Shown(Typical(rank.passes))});
  }
  std::string text =
      fmt::format("{}, batch {} over {} ranks ({}): {}\n\n", report.net,
                  report.batch.count(), report.ranks.size(),
                  report.even ? "evenly split" : report.source, report.reason);
  text += table.Text();
  text +=
      fmt::format("\nslowest rank: convolutions {}, {} {}; both passes {}\n",
                  Shown(Largest(report, &RankReport::convolutions)), kPredicted,
                  Shown(Largest(report, &RankReport::predicted)),
                  Shown(TypicalSlowest(report)));
  text += fmt::format("exchange of gradients after the passes {}, step {}\n",
                      Shown(Typical(Exchanges(report))),
                      report.in_turns ? "- (ranks compute in turns)"
                                      : Shown(Typical(report.steps)));
  if (!report.sum_method.empty()) {
    text += fmt::format("gradients are summed by {}\n", report.sum_method);
  }
  if (!report.losses.empty()) {
    text += fmt::format("loss {:.6g} at step {}, {:.6g} at step {}{}\n",
                        report.losses.front(), report.first_step,
                        report.losses.back(),
                        report.first_step + std::ssize(report.losses) - 1,
                        report.interrupted ? ", then interrupted" : "");
  }
  for (std::size_t r = 0; r < report.ranks.size(); ++r) {
    for (const std::string& fallback : report.ranks[r].fallbacks) {
      text += fmt::format("rank {}: {}\n", r, fallback);
    }
  }
  return text;
}

}  // namespace ucudnn::train
