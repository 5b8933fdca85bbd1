#include "coordinator/agents/agent_store.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "coordinator/store/records.h"

namespace ucudnn {
namespace {

// In the order of the enums' values.
constexpr std::array<std::string_view, 2> kAgentStates = {"online", "gone"};
constexpr std::array<std::string_view, 3> kDeviceStates = {"idle", "busy",
                                                           "lost"};

constexpr char kSelectAgents[] =
    "SELECT a.id, a.host, a.version, a.state, a.registered_ms, a.last_seen_ms, "
    "h.what, h.who, h.reason, h.since_ms, h.deadline_ms, a.machine_id "
    "FROM agents a LEFT JOIN holds h ON h.agent = a.id ";

constexpr char kSelectDevices[] =
    "SELECT d.id, d.agent, k.model, k.units, k.memory_bytes, k.library, "
    "d.driver, d.state, d.reason, d.last_seen_ms, "
    "h.what, h.who, h.reason, h.since_ms, h.deadline_ms "
    "FROM devices d JOIN kinds k ON k.key = d.kind "
    "LEFT JOIN holds h ON h.agent = d.agent ";

DeviceKind KindOf(const SqlRow& row, std::size_t first) {
  return {.model = row.Text(first),
          .units = row.Int(first + 1),
          .memory = Bytes(row.Int(first + 2)),
          .library = row.Text(first + 3)};
}

std::optional<HoldRecord> HoldOf(const SqlRow& row, std::size_t first) {
  if (row.IsNull(first)) return std::nullopt;
  return HoldRecord{.what = row.Text(first),
                    .who = row.Text(first + 1),
                    .reason = row.Text(first + 2),
                    .since_ms = row.Int(first + 3),
                    .deadline_ms = row.Int(first + 4)};
}

Result<AgentRecord> AgentOf(const SqlRow& row) {
  UCUDNN_ASSIGN_OR_RETURN(const AgentState state, ParseAgentState(row.Text(3)));
  AgentRecord agent{.id = row.Text(0),
                    .host = row.Text(1),
                    .version = row.Text(2),
                    .state = state,
                    .registered_ms = row.Int(4),
                    .last_seen_ms = row.Int(5)};
  agent.hold = HoldOf(row, 6);
  agent.machine_id = row.Text(11);
  return agent;
}

Result<DeviceRecord> DeviceOf(const SqlRow& row) {
  UCUDNN_ASSIGN_OR_RETURN(const DeviceState state,
                          ParseDeviceState(row.Text(7)));
  return DeviceRecord{.id = row.Text(0),
                      .agent = row.Text(1),
                      .kind = KindOf(row, 2),
                      .driver = row.Text(6),
                      .state = state,
                      .reason = row.Text(8),
                      .last_seen_ms = row.Int(9),
                      .hold = HoldOf(row, 10)};
}

// A device that registers.
struct NewDevice {
  const AgentRegistration* registration;
  const DeviceRecord* device;
  std::string kind;
};

// What registrations hold, sorted: writers that lock rows in the same order do
// not deadlock.
struct Registered {
  std::map<std::string_view, const AgentRegistration*> agents;
  std::map<std::string_view, NewDevice> devices;
};

Result<Registered> Sorted(std::span<const AgentRegistration> registrations) {
  Registered sorted;
  for (const AgentRegistration& registration : registrations) {
    const std::string& agent = registration.agent.id;
    UCUDNN_RETURN_IF_ERROR(CheckKey("the agent's id", agent));
    if (!sorted.agents.emplace(agent, &registration).second) {
      return Fail(Code::kInvalidArgument, "agent '{}' registers twice", agent);
    }
    for (const DeviceRecord& device : registration.devices) {
      NewDevice added{&registration, &device, ToString(device.kind)};
      UCUDNN_RETURN_IF_ERROR(CheckKey("a device's id", device.id));
      UCUDNN_RETURN_IF_ERROR(CheckKey("a device's kind", added.kind));
      if (!sorted.devices.emplace(device.id, std::move(added)).second) {
        return Fail(Code::kInvalidArgument, "device '{}' registers twice",
                    device.id);
      }
    }
  }
  return sorted;
}

// The first of the map whose key is in no row.
template <class Map>
auto FirstMissing(const Map& map, const std::vector<SqlRow>& rows) {
  std::set<std::string, std::less<>> found;
  for (const SqlRow& row : rows) found.insert(row.Text(0));
  return std::ranges::find_if_not(
      map, [&](const auto& entry) { return found.contains(entry.first); });
}

// The error of an agent that is not among those put: another machine has one of
// its name.
Status RefuseSecond(SqlTransaction& sql, const Registered& registered,
                    const std::vector<SqlRow>& put) {
  const AgentRecord& second =
      FirstMissing(registered.agents, put)->second->agent;
  UCUDNN_ASSIGN_OR_RETURN(
      const auto first,
      sql.Query("SELECT host, machine_id FROM agents WHERE id = $1",
                {second.id}));
  return Fail(
      Code::kAlreadyExists,
      "agent '{}' is online on another machine, {} with machine id {}; "
      "this one, {} with machine id {}, needs a name of its own: `id =` "
      "in its settings, or --id",
      second.id, first.at(0).Text(0), first.at(0).Text(1), second.host,
      second.machine_id);
}

Status PutAgents(SqlTransaction& sql, const Registered& registered) {
  SqlRows rows(
      "id TEXT, host TEXT, version TEXT, now_ms BIGINT, machine_id TEXT");
  for (const auto& [id, registration] : registered.agents) {
    const AgentRecord& agent = registration->agent;
    rows.Add({id, agent.host, agent.version, registration->now_ms,
              agent.machine_id});
  }
  UCUDNN_ASSIGN_OR_RETURN(
      const auto put,
      sql.Query("INSERT INTO agents (id, host, version, state, registered_ms, "
                "last_seen_ms, machine_id) SELECT id, host, version, 'online', "
                "now_ms, now_ms, machine_id FROM $rows WHERE true "
                "ON CONFLICT (id) DO UPDATE SET host = excluded.host, "
                "version = excluded.version, state = excluded.state, "
                "last_seen_ms = excluded.last_seen_ms, "
                "machine_id = excluded.machine_id, beats = agents.beats + 1 "
                "WHERE agents.state = 'gone' OR agents.machine_id = '' OR "
                "excluded.machine_id IN ('', agents.machine_id) RETURNING id",
                rows));
  if (put.size() < registered.agents.size()) {
    return RefuseSecond(sql, registered, put);
  }
  return sql.Execute(
      "UPDATE devices SET state = 'lost', "
      "reason = 'its agent no longer reports it' "
      "FROM $rows WHERE devices.agent = rows.id",
      rows);
}

Status PutDevices(SqlTransaction& sql, const Registered& registered) {
  std::map<std::string_view, const DeviceKind*> kinds;
  SqlRows devices(
      "id TEXT, agent TEXT, kind TEXT, driver TEXT, state TEXT, reason TEXT, "
      "last_seen_ms BIGINT");
  for (const auto& [id, added] : registered.devices) {
    const auto& [registration, device, kind] = added;
    kinds.emplace(kind, &device->kind);
    devices.Add({id, registration->agent.id, kind, device->driver,
                 Name(device->state), device->reason, registration->now_ms});
  }
  SqlRows rows(
      "key TEXT, model TEXT, units BIGINT, memory_bytes BIGINT, library TEXT");
  for (const auto& [key, kind] : kinds) {
    rows.Add(
        {key, kind->model, kind->units, kind->memory.count(), kind->library});
  }
  // The key is made of the other columns, so a known kind needs no update.
  UCUDNN_RETURN_IF_ERROR(sql.Execute(
      "INSERT INTO kinds (key, model, units, memory_bytes, library) $values "
      "ON CONFLICT (key) DO NOTHING",
      rows));
  const bool own_only = std::ranges::any_of(
      registered.agents,
      [](const auto& agent) { return agent.second->own_only; });
  UCUDNN_ASSIGN_OR_RETURN(
      const auto put,
      sql.Query(
          std::string(
              "INSERT INTO devices (id, agent, kind, driver, state, reason, "
              "last_seen_ms) $values ON CONFLICT (id) DO UPDATE SET "
              "agent = excluded.agent, kind = excluded.kind, "
              "driver = excluded.driver, state = excluded.state, "
              "reason = excluded.reason, last_seen_ms = "
              "excluded.last_seen_ms ") +
              (own_only ? "WHERE devices.agent = excluded.agent OR "
                          "devices.agent IN (SELECT agents.id FROM agents "
                          "WHERE agents.state = 'gone') "
                        : "") +
              "RETURNING id",
          devices));
  if (put.size() == registered.devices.size()) return {};
  const std::string id(FirstMissing(registered.devices, put)->first);
  UCUDNN_ASSIGN_OR_RETURN(
      const auto owner,
      sql.Query("SELECT agent FROM devices WHERE id = $1", {id}));
  return Fail(Code::kPermissionDenied,
              "device {} is that of agent {}, which is not gone", id,
              owner.at(0).Text(0));
}

}  // namespace

std::string_view Name(AgentState state) {
  return kAgentStates.at(static_cast<std::size_t>(state));
}
std::string_view Name(DeviceState state) {
  return kDeviceStates.at(static_cast<std::size_t>(state));
}
Result<AgentState> ParseAgentState(std::string_view text) {
  return ParseState<AgentState>(kAgentStates, "an agent's state", text);
}
Result<DeviceState> ParseDeviceState(std::string_view text) {
  return ParseState<DeviceState>(kDeviceStates, "a device's state", text);
}

Status AgentStore::RegisterAgents(
    std::span<const AgentRegistration> registrations) {
  UCUDNN_ASSIGN_OR_RETURN(const Registered registered, Sorted(registrations));
  return database_.Write([&](SqlTransaction& sql) -> Status {
    UCUDNN_RETURN_IF_ERROR(PutAgents(sql, registered));
    return PutDevices(sql, registered);
  });
}

Result<std::vector<std::string>> AgentStore::Heartbeat(
    std::span<const AgentBeat> beats) {
  struct Reported {
    const AgentBeat* beat;
    const DeviceStatus* device;
  };
  // Writers that lock rows in the same order do not deadlock.
  std::vector<const AgentBeat*> agents;
  for (const AgentBeat& beat : beats) agents.push_back(&beat);
  std::ranges::sort(agents, {}, [](auto* beat) { return beat->agent; });
  std::vector<Reported> devices;
  for (const AgentBeat* beat : agents) {
    for (const DeviceStatus& device : beat->devices) {
      devices.push_back({beat, &device});
    }
  }
  std::ranges::stable_sort(devices, {}, [](const Reported& reported) {
    return reported.device->id;
  });
  using Ids = std::vector<std::string>;
  return database_.Write([&](SqlTransaction& sql) -> Result<Ids> {
    SqlRows seen("id TEXT, seen BIGINT");
    for (const AgentBeat* beat : agents) {
      seen.Add({beat->agent, beat->seen_ms});
    }
    UCUDNN_ASSIGN_OR_RETURN(
        const auto ids,
        sql.Query("UPDATE agents SET state = CASE agents.state "
                  "WHEN 'gone' THEN 'online' ELSE agents.state END, "
                  "last_seen_ms = rows.seen, beats = agents.beats + 1 "
                  "FROM $rows WHERE agents.id = rows.id "
                  "RETURNING agents.id",
                  seen));
    std::set<std::string> found;
    for (const SqlRow& row : ids) found.insert(row.Text(0));
    SqlRows reported(
        "agent TEXT, seen BIGINT, id TEXT, state TEXT, reason TEXT");
    for (const auto& [beat, device] : devices) {
      reported.Add({beat->agent, beat->seen_ms, device->id, Name(device->state),
                    device->reason});
    }
    UCUDNN_RETURN_IF_ERROR(sql.Execute(
        "UPDATE devices SET state = rows.state, reason = rows.reason, "
        "last_seen_ms = rows.seen FROM $rows "
        "WHERE devices.id = rows.id AND devices.agent = rows.agent",
        reported));
    Ids unknown;
    for (const AgentBeat* beat : agents) {
      if (!found.contains(beat->agent)) unknown.push_back(beat->agent);
    }
    return unknown;
  });
}

Status AgentStore::SetAgentState(const std::string& agent, AgentState state,
                                 const std::string& reason) {
  return database_.Write([&](SqlTransaction& sql) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto found,
        sql.Query("UPDATE agents SET state = $2 WHERE id = $1 RETURNING id",
                  {agent, std::string(Name(state))}));
    if (found.empty()) {
      return Fail(Code::kNotFound, "agent '{}' is not registered", agent);
    }
    if (state != AgentState::kGone) return {};
    return sql.Execute(
        "UPDATE devices SET state = 'lost', reason = $2 WHERE agent = $1",
        {agent, reason});
  });
}

Status AgentStore::HoldAgent(const std::string& agent,
                             const std::optional<HoldRecord>& hold,
                             const ActionRecord& action, bool own_only) {
  return database_.Write([&](SqlTransaction& sql) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(
        const AgentRecord found,
        OneRecord(
            sql.Query(std::string(kSelectAgents) + "WHERE a.id = $1", {agent}),
            AgentOf, fmt::format("agent '{}'", agent)));
    if (own_only && found.hold && found.hold->who != action.who) {
      return Fail(Code::kPermissionDenied,
                  "{} holds node '{}' ({}: {}); {} may change only a hold "
                  "of its own",
                  found.hold->who, agent, found.hold->what, found.hold->reason,
                  action.who);
    }
    UCUDNN_RETURN_IF_ERROR(
        hold ? sql.Execute(
                   "INSERT INTO holds (agent, what, who, reason, since_ms, "
                   "deadline_ms) VALUES ($1, $2, $3, $4, $5, $6) "
                   "ON CONFLICT (agent) DO UPDATE SET what = excluded.what, "
                   "who = excluded.who, reason = excluded.reason, "
                   "since_ms = excluded.since_ms, "
                   "deadline_ms = excluded.deadline_ms",
                   {agent, hold->what, hold->who, hold->reason, hold->since_ms,
                    hold->deadline_ms})
             : sql.Execute("DELETE FROM holds WHERE agent = $1", {agent}));
    return ucudnn::AddAction(sql, action);
  });
}

Status AgentStore::DeleteAgent(const std::string& agent,
                               const ActionRecord& action) {
  return database_.Write([&](SqlTransaction& sql) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(const auto found,
                            sql.Query("SELECT state FROM agents WHERE id = $1" +
                                          sql.dialect().lock_rows,
                                      {agent}));
    if (found.empty()) {
      return Fail(Code::kNotFound, "there is no agent '{}'", agent);
    }
    if (found[0].Text(0) != Name(AgentState::kGone)) {
      return Fail(Code::kFailedPrecondition,
                  "node '{}' is {}; one that is gone is accepted: stop its "
                  "agent first",
                  agent, found[0].Text(0));
    }
    for (const char* statement : {"DELETE FROM holds WHERE agent = $1",
                                  "DELETE FROM devices WHERE agent = $1",
                                  "DELETE FROM agents WHERE id = $1"}) {
      UCUDNN_RETURN_IF_ERROR(sql.Execute(statement, {agent}));
    }
    return ucudnn::AddAction(sql, action);
  });
}

Result<std::vector<Pulse>> AgentStore::ListAgentPulses() {
  return database_.Read([](SqlTransaction& sql) {
    return ReadPulses(sql,
                      "SELECT id, beats FROM agents WHERE state <> 'gone'");
  });
}

Result<std::vector<std::string>> AgentStore::ExpireAgents(
    std::span<const Pulse> silent) {
  return database_.Write(
      [&](SqlTransaction& sql) -> Result<std::vector<std::string>> {
        UCUDNN_ASSIGN_OR_RETURN(
            std::vector<std::string> gone,
            UpdateSilent(sql, silent,
                         "UPDATE agents SET state = 'gone' FROM $rows "
                         "WHERE agents.id = rows.id AND "
                         "agents.beats = rows.beats AND "
                         "agents.state <> 'gone' RETURNING agents.id"));
        SqlRows rows("agent TEXT");
        for (const std::string& id : gone) rows.Add({id});
        UCUDNN_RETURN_IF_ERROR(
            sql.Execute("UPDATE tasks SET lease_until_ms = 0 FROM $rows "
                        "WHERE tasks.state = 'leased' AND "
                        "tasks.agent = rows.agent",
                        rows));
        UCUDNN_RETURN_IF_ERROR(
            sql.Execute("UPDATE devices SET state = 'lost', "
                        "reason = 'its agent is silent' FROM $rows "
                        "WHERE devices.agent = rows.agent",
                        rows));
        return gone;
      });
}

Result<std::vector<AgentRecord>> AgentStore::ListAgents() {
  return database_.Read([](SqlTransaction& sql) {
    return Records(sql.Query(std::string(kSelectAgents) + "ORDER BY a.id"),
                   AgentOf);
  });
}

Result<AgentRecord> AgentStore::GetAgent(const std::string& id) {
  return database_.Read([&](SqlTransaction& sql) {
    return OneRecord(
        sql.Query(std::string(kSelectAgents) + "WHERE a.id = $1", {id}),
        AgentOf, fmt::format("agent '{}'", id));
  });
}

Result<std::vector<DeviceRecord>> AgentStore::ListDevices(
    const std::string& kind) {
  return database_.Read([&](SqlTransaction& sql) {
    return Records(sql.Query(std::string(kSelectDevices) +
                                 "WHERE $1 = '' OR d.kind = $1 ORDER BY d.id",
                             {kind}),
                   DeviceOf);
  });
}

Result<DeviceRecord> AgentStore::GetDevice(const std::string& id) {
  return database_.Read([&](SqlTransaction& sql) {
    return OneRecord(
        sql.Query(std::string(kSelectDevices) + "WHERE d.id = $1", {id}),
        DeviceOf, fmt::format("device '{}'", id));
  });
}

Result<std::vector<std::string>> AgentStore::ListDrivers(
    const std::string& kind) {
  UCUDNN_ASSIGN_OR_RETURN(const auto devices, ListDevices(kind));
  std::set<std::string> drivers;
  for (const DeviceRecord& device : devices) {
    if (device.state != DeviceState::kLost) drivers.insert(device.driver);
  }
  return std::vector<std::string>(drivers.begin(), drivers.end());
}

Result<std::int64_t> AgentStore::CountDevices() {
  return database_.Read([](SqlTransaction& sql) -> Result<std::int64_t> {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto rows,
        sql.Query("SELECT COUNT(*) FROM devices WHERE state <> 'lost'"));
    return rows.at(0).Int(0);
  });
}

Result<std::vector<KindSummary>> AgentStore::ListKinds() {
  return database_.Read([](SqlTransaction& sql) {
    return Records(
        sql.Query("SELECT k.model, k.units, k.memory_bytes, k.library, "
                  "COUNT(*), SUM(CASE WHEN d.state IN ('idle', 'busy') AND "
                  "h.agent IS NULL THEN 1 ELSE 0 END) "
                  "FROM kinds k JOIN devices d ON d.kind = k.key "
                  "LEFT JOIN holds h ON h.agent = d.agent "
                  "GROUP BY k.key, k.model, k.units, k.memory_bytes, k.library "
                  "ORDER BY k.key"),
        [](const SqlRow& row) -> Result<KindSummary> {
          return KindSummary{.kind = KindOf(row, 0),
                             .devices = row.Int(4),
                             .usable = row.Int(5)};
        });
  });
}

Result<std::vector<std::int64_t>> AgentStore::RenewLeases(
    std::span<const LeaseRef> leases, UnixMillis until_ms) {
  std::vector<LeaseRef> sorted(leases.begin(), leases.end());
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  using Ids = std::vector<std::int64_t>;
  return database_.Write([&](SqlTransaction& sql) -> Result<Ids> {
    SqlRows held("task BIGINT, token BIGINT");
    for (const LeaseRef& lease : sorted) {
      held.Add({lease.task, lease.token});
    }
    UCUDNN_ASSIGN_OR_RETURN(
        const auto found, sql.Query("UPDATE tasks SET lease_until_ms = "
                                    "CASE WHEN lease_until_ms < $1 THEN $1 "
                                    "ELSE lease_until_ms END FROM $rows "
                                    "WHERE tasks.id = rows.task AND "
                                    "tasks.lease_token = rows.token AND "
                                    "tasks.state = 'leased' RETURNING tasks.id",
                                    held, {until_ms}));
    Ids renewed;
    for (const SqlRow& row : found) renewed.push_back(row.Int(0));
    std::ranges::sort(renewed);
    return renewed;
  });
}

Result<std::int64_t> AgentStore::ReleaseLeases(const std::string& agent) {
  return database_.Write([&](SqlTransaction& sql) -> Result<std::int64_t> {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto released,
        sql.Query("UPDATE tasks SET state = 'pending', "
                  "attempts = attempts - 1, agent = '', device = '', "
                  "lease_until_ms = 0 "
                  "WHERE agent = $1 AND state = 'leased' RETURNING id",
                  {agent}));
    return std::ssize(released);
  });
}

}  // namespace ucudnn
