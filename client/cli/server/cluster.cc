// What the cluster consists of: agents, devices and the coordinator's state.

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/service/clock.h"
#include "base/service/help.h"
#include "client/cli/server/list.h"
#include "client/cli/server/names.h"
#include "client/cli/server/pages.h"
#include "client/cli/server/remove.h"
#include "client/cli/server/server.h"
#include "proto/json.h"

namespace ucudnn::ctl {
namespace {

List Nodes() {
  return {
      .columns = {Plain("NODE", "id"), Plain("HOST", "host"),
                  Plain("STATE", "state"), Count("DEVICES", "device_ids"),
                  Age("LAST SEEN", "last_seen_ms"), Plain("VERSION", "version"),
                  Plain("HELD BY", "hold.who"), Plain("WHY", "hold.reason"),
                  Wide(Age("HELD", "hold.since_ms")),
                  Wide(Age("DEADLINE", "hold.deadline_ms"))},
      .id = "id",
      .fetch = Fetch(&Stub::ListAgents, &v1::ListAgentsResponse::agents),
      .states = {"online", "cordoned", "draining", "gone"}};
}

// "idle", "busy (a job runs)", "cordoned (by ann: fans)" or "measuring resnet50
// conv2 forward, batch 32".
std::string DeviceState(const Json& device) {
  const Json& measuring = Member(device, "measuring");
  const std::string state = Member(device, "state").get<std::string>();
  if (measuring.is_object() && state != "lost") {
    const std::string layer = measuring["layer"];
    return fmt::format(
        "measuring {}, batch {}",
        layer.empty() ? measuring["problem"].get<std::string>() : layer,
        measuring["batch"].get<std::int64_t>());
  }
  const std::string reason = Member(device, "state_reason").get<std::string>();
  return reason.empty() ? state : fmt::format("{} ({})", state, reason);
}

std::string ComparedText(const Json& device) {
  const Json& comparison = Member(device, "comparison");
  if (!comparison.is_object()) return "-";
  return comparison["deviates"].get<bool>()
             ? comparison["text"].get<std::string>()
             : "like its kind";
}

List Devices(const std::shared_ptr<std::string>& kind) {
  List list;
  list.columns = {Plain("DEVICE", "id"),
                  Plain("NODE", "agent_id"),
                  Kind("KIND", "kind"),
                  {"STATE", "state", DeviceState},
                  Wide(Age("LAST SEEN", "last_seen_ms")),
                  Wide(Plain("DRIVER", "driver")),
                  {"COMPARED", "comparison.text", ComparedText}};
  list.id = "id";
  list.states = {"idle", "busy", "cordoned", "draining", "lost"};
  list.fetch = [kind](Connection& connection,
                      v1::ListRequest request) -> Result<Json> {
    if (!kind->empty()) {
      UCUDNN_ASSIGN_OR_RETURN(*request.mutable_kind(),
                              KindNamed(connection, *kind));
    }
    return Entries(connection, &Stub::ListDevices,
                   &v1::ListDevicesResponse::devices, std::move(request));
  };
  return list;
}

// What devices and measurements there are of each kind.
Result<Json> KindEntries(Connection& connection, const v1::ListRequest&) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<std::string> kinds,
                          KnownKinds(connection));
  UCUDNN_ASSIGN_OR_RETURN(const auto devices,
                          AllPages(connection, &Stub::ListDevices,
                                   &v1::ListDevicesResponse::devices));
  UCUDNN_ASSIGN_OR_RETURN(const auto profiles,
                          AllPages(connection, &Stub::ListProfiles,
                                   &v1::ListProfilesResponse::profiles));
  Json entries = Json::array();
  for (const std::string& kind : kinds) {
    Json entry = {{"number", entries.size() + 1},
                  {"kind", kind},
                  {"short", ShortKind(kind)},
                  {"devices", 0},
                  {"online", 0},
                  {"measurements", 0}};
    for (const v1::Device& device : devices.devices()) {
      if (device.kind() != kind) continue;
      entry["devices"] = entry["devices"].get<int>() + 1;
      if (device.state() == "lost") continue;
      entry["online"] = entry["online"].get<int>() + 1;
    }
    for (const v1::ProfileSummary& profile : profiles.profiles()) {
      if (profile.id() == kind) entry["measurements"] = profile.points();
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

Status ShowStatus(const Server& server, OutputFormat format) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  UCUDNN_ASSIGN_OR_RETURN(const v1::StatusResponse status,
                          connection->Call(&Stub::GetStatus, {}));
  return Print(format, ToJson(status), [&] {
    Table table({"COORDINATOR", connection->name()});
    table.AddRow({"version", status.version()});
    table.AddRow({"database", fmt::format("{}, schema {}", status.database(),
                                          status.schema_version())});
    table.AddRow({"agents online", std::to_string(status.agents_online())});
    table.AddRow({"devices online", std::to_string(status.devices_online())});
    table.AddRow({"networks", std::to_string(status.networks())});
    table.AddRow(
        {"tasks",
         fmt::format("{} pending, {} running, {} done, {} failed, {} cancelled",
                     status.tasks_pending(), status.tasks_running(),
                     status.tasks_done(), status.tasks_failed(),
                     status.tasks_cancelled())});
    return table.Text();
  });
}

struct HoldOptions {
  std::string node;
  std::string reason;
  double deadline_hours = 0;
  OutputFormat output = OutputFormat::kTable;
};

// What becomes of a job with ranks on a node that is drained or resumed.
std::string TextOf(const v1::DrainedJob& job, bool resumed) {
  std::string text = fmt::format("job {}, ranks {}: ", OneLine(job.job_id()),
                                 fmt::join(job.ranks(), ", "));
  if (!job.error().empty()) {
    return text + fmt::format("no plan {} them yet: {}\n",
                              resumed ? "with" : "without",
                              OneLine(job.error()));
  }
  if (!resumed) {
    return text + fmt::format("revision {} leaves them out\n", job.revision());
  }
  if (job.revision() == 0)
    return text + "a plan with them was offered before\n";
  return text + fmt::format(
                    "revision {} gives them a part of the batch again; "
                    "`ucudnn replan {} --accept` has it adopted\n",
                    job.revision(), OneLine(job.job_id()));
}

// "cordon", "drain" or "resume".
Status Hold(const Server& server, const std::string& what,
            const HoldOptions& options) {
  UCUDNN_ASSIGN_OR_RETURN(const auto connection, server.Connect());
  v1::HoldAgentRequest request;
  UCUDNN_ASSIGN_OR_RETURN(*request.mutable_agent_id(),
                          NodeNamed(*connection, options.node));
  request.set_what(what);
  request.set_who(WhoAmI());
  request.set_reason(options.reason);
  if (options.deadline_hours > 0) {
    request.set_deadline_ms(
        SystemClock().NowMs() +
        static_cast<std::int64_t>(options.deadline_hours * 3'600'000));
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const v1::HoldAgentResponse answer,
      connection->Call(&Stub::HoldAgent, request, RetryPolicy::LongWork()));
  return Print(options.output, ToJson(answer), [&] {
    std::string text =
        fmt::format("node {} is {}\n", OneLine(answer.agent().id()),
                    answer.agent().state());
    for (const v1::DrainedJob& job : answer.jobs()) {
      text += TextOf(job, what == "resume");
    }
    if (what == "drain" && answer.jobs().empty()) {
      text += "no running job has ranks on it\n";
    }
    return text;
  });
}

void AddHold(CLI::App& app, const Server& server, const std::string& what,
             const std::string& help, Chosen* chosen) {
  const auto options = std::make_shared<HoldOptions>();
  CLI::App* command = app.add_subcommand(what, help);
  command->add_option("NODE", options->node, "The node; see `ucudnn nodes`")
      ->required();
  CLI::Option* reason =
      AddTextOption(command, "--reason", "TEXT", &options->reason,
                    "Why, for `ucudnn nodes` and `ucudnn history`");
  if (what == "drain") {
    reason->required();
    command
        ->add_option("--deadline", options->deadline_hours,
                     "In how many hours the node goes down")
        ->check(NumberIn(0, 24.0 * 365))
        ->option_text("HOURS")
        ->default_str("");
  }
  AddOutputOption(command, &options->output);
  OnChosen(command, chosen,
           [&server, what, options] { return Hold(server, what, *options); });
}

}  // namespace

std::string Ago(std::int64_t then_ms) {
  if (then_ms == 0) return "-";
  const std::int64_t past = (SystemClock().NowMs() - then_ms) / 1000;
  const std::int64_t s = std::abs(past);
  if (s < 1) return "now";
  const std::string time = s < 120    ? fmt::format("{} s", s)
                           : s < 7200 ? fmt::format("{} min", (s + 30) / 60)
                           : s < 172'800
                               ? fmt::format("{} h", (s + 1800) / 3600)
                               : fmt::format("{} days", (s + 43'200) / 86'400);
  return past > 0 ? time + " ago" : "in " + time;
}

Result<std::string> OnlyKind(Connection& connection, std::string_view flag) {
  v1::ListRequest list;
  list.set_limit(1000);
  UCUDNN_ASSIGN_OR_RETURN(const auto devices,
                          connection.Call(&Stub::ListDevices, list));
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
              "the cluster has several kinds of device; give one, or one for "
              "each rank, by {}: {}",
              flag, fmt::join(kinds, ", "));
}

void AddClusterCommands(CLI::App& app, const Server& server, Chosen* chosen) {
  CLI::App* nodes = app.add_subcommand(
      "nodes", "List the nodes that run an agent, with their state");
  AddList(nodes, server, Nodes(), chosen);
  AddRemove(nodes, server,
            {.what = "node",
             .id = "NODE",
             .remove = &Stub::DeleteAgent,
             .named = NodeNamed},
            chosen);
  AddHold(app, server, "cordon",
          "Have a node's devices take no more measurements, until it is "
          "resumed",
          chosen);
  AddHold(app, server, "drain",
          "Cordon a node and propose plans to its jobs that leave its ranks "
          "out",
          chosen);
  AddHold(app, server, "resume",
          "Have a cordoned or drained node's devices take measurements again",
          chosen);

  const auto kind = std::make_shared<std::string>();
  CLI::App* devices =
      app.add_subcommand("devices", "List the devices that are measured");
  AddTextOption(devices, "--kind", "KIND", kind.get(),
                "Show only devices of this kind");
  AddList(devices, server, Devices(kind), chosen);

  AddList(app.add_subcommand(
              "kinds",
              "List the kinds of device, by the numbers and short names that "
              "other commands accept"),
          server,
          {.columns = {Plain("NUMBER", "number"), Plain("SHORT", "short"),
                       Plain("KIND", "kind"), Plain("DEVICES", "devices"),
                       Plain("ONLINE", "online"),
                       Plain("MEASUREMENTS", "measurements")},
           .id = "kind",
           .fetch = KindEntries,
           .paged = false},
          chosen);

  const auto format = std::make_shared<OutputFormat>(OutputFormat::kTable);
  CLI::App* status = app.add_subcommand(
      "status", "Show whether the coordinator answers, and its state");
  AddOutputOption(status, format.get());
  OnChosen(status, chosen,
           [&server, format] { return ShowStatus(server, *format); });
}

}  // namespace ucudnn::ctl
