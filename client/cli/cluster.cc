// What the cluster consists of: agents, devices and the coordinator's state.

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/service/clock.h"
#include "client/cli/pages.h"
#include "client/cli/server.h"
#include "proto/json.h"

namespace ucudnn::ctl {
namespace {

Status Nodes(const Server& server, OutputFormat format) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  UCUDNN_ASSIGN_OR_RETURN(const auto response,
                          AllPages(*connection, &Connection::ListAgents,
                                   &v1::ListAgentsResponse::agents));
  return Print(format, ToJson(response)["agents"], [&] {
    Table table({"NODE", "HOST", "STATE", "DEVICES", "LAST SEEN", "VERSION"});
    for (const v1::Agent& agent : response.agents()) {
      table.AddRow({agent.id(), agent.host(), agent.state(),
                    std::to_string(agent.device_ids_size()),
                    Ago(agent.last_seen_ms()), agent.version()});
    }
    return table.Text();
  });
}

std::string ComparedText(const v1::Device& device) {
  if (!device.has_comparison()) return "-";
  return device.comparison().deviates() ? device.comparison().text()
                                        : "like its kind";
}

Status Devices(const Server& server, const std::string& kind,
               OutputFormat format) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  v1::ListRequest request;
  request.set_kind(kind);
  UCUDNN_ASSIGN_OR_RETURN(
      const auto response,
      AllPages(*connection, &Connection::ListDevices,
               &v1::ListDevicesResponse::devices, std::move(request)));
  return Print(format, ToJson(response)["devices"], [&] {
    Table table({"DEVICE", "NODE", "KIND", "STATE", "DRIVER", "COMPARED"});
    for (const v1::Device& device : response.devices()) {
      const std::string state =
          device.state_reason().empty()
              ? device.state()
              : device.state() + " (" + device.state_reason() + ")";
      table.AddRow({device.id(), device.agent_id(), device.kind(), state,
                    device.driver(), ComparedText(device)});
    }
    return table.Text();
  });
}

Status ShowStatus(const Server& server, OutputFormat format) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  UCUDNN_ASSIGN_OR_RETURN(const v1::StatusResponse status,
                          connection->GetStatus());
  return Print(format, ToJson(status), [&] {
    Table table({"COORDINATOR", connection->name()});
    table.AddRow({"version", status.version()});
    table.AddRow({"database", fmt::format("{}, schema {}", status.database(),
                                          status.schema_version())});
    table.AddRow({"agents online", std::to_string(status.agents_online())});
    table.AddRow({"devices online", std::to_string(status.devices_online())});
    table.AddRow({"networks", std::to_string(status.networks())});
    table.AddRow(
        {"tasks", fmt::format("{} pending, {} running, {} done, {} failed",
                              status.tasks_pending(), status.tasks_running(),
                              status.tasks_done(), status.tasks_failed())});
    return table.Text();
  });
}

}  // namespace

std::string Ago(std::int64_t then_ms) {
  if (then_ms == 0) return "never";
  const std::int64_t s = (SystemClock().NowMs() - then_ms) / 1000;
  if (s < 1) return "now";
  if (s < 120) return fmt::format("{} s ago", s);
  if (s < 7200) return fmt::format("{} min ago", s / 60);
  if (s < 172'800) return fmt::format("{} h ago", s / 3600);
  return fmt::format("{} days ago", s / 86'400);
}

Result<std::string> OnlyKind(Connection& connection, std::string_view flag) {
  v1::ListRequest list;
  list.set_limit(1000);
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, connection.ListDevices(list));
  std::set<std::string> online;
  std::set<std::string> known;
  for (const v1::Device& device : devices.devices()) {
    known.insert(device.kind());
    if (device.state() != "lost") online.insert(device.kind());
  }
  const std::set<std::string>& kinds = online.empty() ? known : online;
  if (kinds.size() == 1) return *kinds.begin();
  if (kinds.empty()) {
    return Fail(Code::kFailedPrecondition,
                "no device is online; start ucudnn-agent on a node, or give {}",
                flag);
  }
  return Fail(Code::kInvalidArgument,
              "the cluster has several kinds of device; give {} once, or once "
              "for each rank: {}",
              flag, fmt::join(kinds, ", "));
}

void AddClusterCommands(CLI::App& app, const Server& server, Chosen* chosen) {
  const auto format = std::make_shared<OutputFormat>(OutputFormat::kTable);
  CLI::App* nodes = app.add_subcommand(
      "nodes", "List the nodes that run an agent, with their state");
  AddOutputOption(nodes, format.get());
  nodes->callback([&server, format, chosen] {
    *chosen = [&server, format] { return Nodes(server, *format); };
  });

  const auto kind = std::make_shared<std::string>();
  CLI::App* devices =
      app.add_subcommand("devices", "List the devices that are measured");
  devices->add_option("--kind", *kind, "Show only devices of this kind")
      ->option_text("KIND");
  AddOutputOption(devices, format.get());
  devices->callback([&server, format, kind, chosen] {
    *chosen = [&server, format, kind] {
      return Devices(server, *kind, *format);
    };
  });

  CLI::App* status = app.add_subcommand(
      "status", "Show whether the coordinator answers, and its state");
  AddOutputOption(status, format.get());
  status->callback([&server, format, chosen] {
    *chosen = [&server, format] { return ShowStatus(server, *format); };
  });
}

}  // namespace ucudnn::ctl
