#include "client/cli/memory_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "client/cli/command.h"

namespace ucudnn::ctl {
namespace {

using Json = nlohmann::ordered_json;

// The number, or 0 if there is none.
template <class T>
T Number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<T>() : T{};
}

Nanoseconds Time(const Json& object, const char* key) {
  return FromMicroseconds(Number<double>(object, key)).value_or(Nanoseconds(0));
}

std::string Size(const Json& object, const char* key) {
  return HumanBytes(Bytes(Number<std::int64_t>(object, key)));
}

std::string Text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : "";
}

bool Has(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

std::string Rounds(const Json& plan) {
  const auto rounds = plan.find("rounds");
  if (rounds == plan.end()) return "";
  std::string text;
  for (const Json& round : *rounds) {
    if (!text.empty()) text += " + ";
    text += fmt::format("{} × {}", Number<std::int64_t>(round, "count"),
                        Number<std::int64_t>(round, "batch"));
  }
  return text;
}

}  // namespace

std::string Deviation(Nanoseconds time, Nanoseconds from) {
  if (from.count() == 0) return "-";
  return fmt::format("{:+.1f} %",
                     100.0 * static_cast<double>((time - from).count()) /
                         static_cast<double>(from.count()));
}

std::string MemorySummary(const Json& plan) {
  Table table({"", ""});
  const auto row = [&](std::string name, std::string value) {
    table.AddRow({std::move(name), std::move(value)});
  };
  const std::string choice = Text(plan, "choice");
  row("policy", choice.empty()
                    ? Text(plan, "policy")
                    : fmt::format("{}: {}", Text(plan, "policy"), choice));
  if (const auto gpus = Number<std::int64_t>(plan, "gpus"); gpus > 1) {
    row("GPUs", fmt::format("{}, {} images each", gpus,
                            Number<std::int64_t>(plan, "batch")));
  }
  row("rounds", Rounds(plan));
  const Nanoseconds bound = Time(plan, "lower_bound_us");
  const Nanoseconds ideal =
      Has(plan, "ideal_time_us") ? Time(plan, "ideal_time_us") : bound;
  const Nanoseconds time = Time(plan, "time_us");
  row("time", fmt::format("{} ({}; with all in memory {}, {})", HumanTime(time),
                          time == bound ? "optimal"
                                        : "bound " + HumanTime(bound),
                          HumanTime(ideal), Deviation(time, ideal)));
  if (const auto cut = plan.find("cut_off");
      cut != plan.end() && cut->is_boolean() && cut->get<bool>()) {
    row("search", "cut off by its time limit; another may find a faster plan");
  }
  row("stalls", HumanTime(Time(plan, "stall_us")));
  row("pool",
      fmt::format("{} of {} (load {}, bound {}, all in memory {})",
                  Size(plan, "peak_bytes"), Size(plan, "budget_bytes"),
                  Size(plan, "load_bytes"), Size(plan, "lower_bound_bytes"),
                  Has(plan, "ideal_bytes") ? Size(plan, "ideal_bytes") : "-"));
  row("to the host", Size(plan, "offloaded_bytes"));
  row("from the host", Size(plan, "prefetched_bytes"));
  row("memory of the host", Size(plan, "host_bytes"));
  return table.Text();
}

}  // namespace ucudnn::ctl
