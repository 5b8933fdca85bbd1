// `ucudnn show`: one object with all its details.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "client/cli/server/names.h"
#include "client/cli/server/server.h"
#include "proto/json.h"

namespace ucudnn::ctl {
namespace {

// A field's value, its time or size as people say it.
std::string FieldText(const std::string& key,
                      const nlohmann::ordered_json& value) {
  if (value.is_null()) return "-";
  if (value == "") return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::string list;
    for (const auto& element : value) {
      list += (list.empty() ? "" : ", ") + FieldText(key, element);
    }
    return list.empty() ? "-" : list;
  }
  if (value.is_number() && key.ends_with("_ms")) {
    return Ago(value.get<std::int64_t>());
  }
  if (value.is_number() && key.ends_with("_bytes")) {
    return HumanBytes(Bytes(value.get<std::int64_t>()));
  }
  return value.dump();
}

// "registered_ms", whose value is an age, as "registered".
std::string Label(std::string key) {
  for (const std::string_view unit : {"_ms", "_bytes"}) {
    if (key.ends_with(unit)) key.resize(key.size() - unit.size());
  }
  std::ranges::replace(key, '_', ' ');
  return key;
}

// A message's fields, one per line.
std::string FieldsText(const google::protobuf::Message& message) {
  const nlohmann::ordered_json json = ToJson(message);
  Table table({"FIELD", "VALUE"});
  for (const auto& [key, value] : json.items()) {
    if (!value.is_object()) {
      table.AddRow({Label(key), FieldText(key, value)});
      continue;
    }
    for (const auto& [inner, member] : value.items()) {
      table.AddRow({fmt::format("{} {}", Label(key), Label(inner)),
                    FieldText(inner, member)});
    }
  }
  return table.Text();
}

std::string Joined(const google::protobuf::RepeatedField<std::int64_t>& list) {
  return fmt::format("{}", fmt::join(list, "x"));
}

std::string NetworkText(const v1::Network& network) {
  Table table({"LAYER", "C", "INPUT", "K", "FILTER", "PADDING", "STRIDE",
               "DILATION", "GROUPS", "TRANSPOSED"});
  for (const v1::Layer& layer : network.layers()) {
    const std::string images =
        layer.images() > 1 ? fmt::format("{} of ", layer.images()) : "";
    table.AddRow({layer.name(), std::to_string(layer.channels()),
                  images + Joined(layer.input()),
                  std::to_string(layer.filters()), Joined(layer.filter()),
                  Joined(layer.padding()), Joined(layer.stride()),
                  Joined(layer.dilation()), std::to_string(layer.groups()),
                  layer.transposed() ? "yes" : "no"});
  }
  return fmt::format("network {}, revision {}, from {}\n\n{}",
                     OneLine(network.name()), network.revision(),
                     OneLine(network.format()), table.Text());
}

std::string RatesText(const v1::ArithmeticRates& rates) {
  return fmt::format("FP32 {:.4g}, TF32 {:.4g}, half {:.4g} TFLOP/s",
                     rates.fp32(), rates.tf32(), rates.half());
}

std::string ModelText(const v1::MeasuredDeviceModel& measured) {
  const v1::DeviceModel& m = measured.model();
  Table table({"DEVICE MODEL", ""});
  table.AddRow({"arithmetic", RatesText(m.arithmetic_tflops())});
  if (m.has_loaded_tflops()) {
    table.AddRow({"under load", RatesText(m.loaded_tflops())});
  }
  table.AddRow(
      {"memory", fmt::format("{:.4g} GB/s, launch {}", m.memory_gb_per_s(),
                             HumanTime(Nanoseconds(m.launch_ns())))});
  table.AddRow(
      {"link",
       fmt::format("{:.4g} GB/s to the host, {:.4g} from it, {:.4g} "
                   "each way at once ({}), latency {}",
                   m.d2h_gb_per_s(), m.h2d_gb_per_s(), m.both_ways_gb_per_s(),
                   m.duplex() ? "duplex" : "not duplex",
                   HumanTime(Nanoseconds(m.transfer_latency_ns())))});
  table.AddRow(
      {"measured", fmt::format("{} on {}, {}", Ago(measured.measured_ms()),
                               measured.device(), measured.driver())});
  return table.Text();
}

std::string ProfileText(const v1::Profile& profile) {
  const std::string model = profile.has_device_model()
                                ? ModelText(profile.device_model()) + "\n"
                                : "";
  Table table({"PROBLEM", "BATCH", "ALGORITHM", "MATH", "WORKSPACE", "TIME",
               "SPREAD", "REPEATS", "OUTLIERS"});
  for (const v1::ProblemProfile& problem : profile.problems()) {
    for (const v1::Measurement& m : problem.measurements()) {
      table.AddRow({problem.problem(), std::to_string(m.batch()), m.algorithm(),
                    m.math(), HumanBytes(Bytes(m.workspace_bytes())),
                    HumanTime(Nanoseconds(m.time_ns())),
                    HumanTime(Nanoseconds(m.spread_ns())),
                    std::to_string(m.repeats()), std::to_string(m.outliers())});
    }
  }
  return model + table.Text();
}

// The id that `text` stands for.
Result<std::string> IdOf(Connection& connection, const std::string& what,
                         const std::string& text) {
  if (what == "node") return NodeNamed(connection, text);
  if (what == "device") return DeviceNamed(connection, text);
  if (what == "network") return NetworkNamed(connection, text);
  if (what == "profile") return KindNamed(connection, text);
  if (what == "job") return JobNamed(connection, text);
  return text;
}

Status Show(const Server& server, const std::string& what,
            const std::string& text, OutputFormat format) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  UCUDNN_ASSIGN_OR_RETURN(const std::string id, IdOf(*connection, what, text));
  const auto print = [&](const auto& found, const auto& text_of) -> Status {
    if (!found) return tl::unexpected<Error>(found.error());
    return Print(format, ToJson(*found), [&] { return text_of(*found); });
  };
  const auto get = [&](const auto& call) {
    return connection->Call(call, ById(id));
  };
  if (what == "node") return print(get(&Stub::GetAgent), FieldsText);
  if (what == "device") return print(get(&Stub::GetDevice), FieldsText);
  if (what == "network") return print(get(&Stub::GetNetwork), NetworkText);
  if (what == "profile") {
    return print(WholeProfile(*connection, id), ProfileText);
  }
  if (what == "job") return print(get(&Stub::GetJob), JobText);
  return print(get(&Stub::GetPlan), PlanText);
}

struct Thing {
  const char* what;
  const char* id;
  const char* help;
};

constexpr std::array kThings = {
    Thing{"node", "NODE", "A node and its devices"},
    Thing{"device", "DEVICE", "A device and its kind"},
    Thing{"network", "NETWORK", "A network's convolutions"},
    Thing{"profile", "KIND", "A kind's device model and all its measurements"},
    Thing{"plan", "PLAN", "A plan, by rank and kernel"},
    Thing{"job", "JOB", "A job's ranks, plans and step times"},
};

}  // namespace

v1::GetRequest ById(const std::string& id) {
  v1::GetRequest request;
  request.set_id(id);
  return request;
}

void AddShowCommands(CLI::App& app, const Server& server, Chosen* chosen) {
  const auto format = std::make_shared<OutputFormat>(OutputFormat::kTable);
  CLI::App* show = app.add_subcommand(
      "show", "Show one node, device, network, profile, plan or job");
  show->require_subcommand(1);
  for (const Thing& thing : kThings) {
    const auto id = std::make_shared<std::string>();
    CLI::App* command = show->add_subcommand(thing.what, thing.help);
    command->add_option(thing.id, *id, "Its id or name")->required();
    AddOutputOption(command, format.get());
    OnChosen(command, chosen, [&server, what = thing.what, id, format] {
      return Show(server, what, *id, *format);
    });
  }
}

}  // namespace ucudnn::ctl
