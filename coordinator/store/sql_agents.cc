// Agents and their devices.

#include <algorithm>
#include <set>

#include "coordinator/store/sql_store.h"

namespace ucudnn {
namespace {

constexpr char kSelectAgents[] =
    "SELECT a.id, a.host, a.version, a.state, a.registered_ms, a.last_seen_ms, "
    "h.what, h.who, h.reason, h.since_ms, h.deadline_ms FROM agents a "
    "LEFT JOIN holds h ON h.agent = a.id ";

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

Status PutDevice(SqlTransaction& sql, const DeviceRecord& device,
                 const std::string& agent, UnixMillis now_ms) {
  const DeviceKind& kind = device.kind;
  const std::string key = ToString(kind);
  // The key is made of the other columns, so a known kind needs no update.
  UCUDNN_RETURN_IF_ERROR(sql.Execute(
      "INSERT INTO kinds (key, model, units, memory_bytes, library) "
      "VALUES ($1, $2, $3, $4, $5) ON CONFLICT (key) DO NOTHING",
      {key, kind.model, kind.units, kind.memory.count(), kind.library}));
  return sql.Execute(
      "INSERT INTO devices (id, agent, kind, driver, state, reason, "
      "last_seen_ms) VALUES ($1, $2, $3, $4, $5, $6, $7) "
      "ON CONFLICT (id) DO UPDATE SET agent = excluded.agent, "
      "kind = excluded.kind, driver = excluded.driver, "
      "state = excluded.state, reason = excluded.reason, "
      "last_seen_ms = excluded.last_seen_ms",
      {device.id, agent, key, device.driver, std::string(Name(device.state)),
       device.reason, now_ms});
}

}  // namespace

Status SqlStore::RegisterAgent(const AgentRecord& agent,
                               std::span<const DeviceRecord> devices,
                               UnixMillis now_ms) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the agent's id", agent.id));
  for (const DeviceRecord& device : devices) {
    UCUDNN_RETURN_IF_ERROR(CheckKey("a device's id", device.id));
    UCUDNN_RETURN_IF_ERROR(CheckKey("a device's kind", ToString(device.kind)));
  }
  return database_->Run(Access::kWrite, [&](SqlTransaction& sql) -> Status {
    UCUDNN_RETURN_IF_ERROR(sql.Execute(
        "INSERT INTO agents (id, host, version, state, registered_ms, "
        "last_seen_ms) VALUES ($1, $2, $3, 'online', $4, $4) "
        "ON CONFLICT (id) DO UPDATE SET host = excluded.host, "
        "version = excluded.version, state = excluded.state, "
        "last_seen_ms = excluded.last_seen_ms, beats = agents.beats + 1",
        {agent.id, agent.host, agent.version, now_ms}));
    UCUDNN_RETURN_IF_ERROR(
        sql.Execute("UPDATE devices SET state = 'lost', "
                    "reason = 'its agent no longer reports it' "
                    "WHERE agent = $1",
                    {agent.id}));
    for (const DeviceRecord& device : devices) {
      UCUDNN_RETURN_IF_ERROR(PutDevice(sql, device, agent.id, now_ms));
    }
    return {};
  });
}

Result<std::vector<std::string>> SqlStore::Heartbeat(
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
  return InTransaction(
      *database_, Access::kWrite, [&](SqlTransaction& sql) -> Result<Ids> {
        std::set<std::string> found;
        UCUDNN_RETURN_IF_ERROR(InPieces(
            sql.dialect(), std::span<const AgentBeat* const>(agents),
            [&](auto piece) -> Status {
              SqlRows rows("($, CAST($ AS BIGINT))");
              for (const AgentBeat* beat : piece) {
                rows.Add({beat->agent, beat->seen_ms});
              }
              UCUDNN_ASSIGN_OR_RETURN(
                  const auto ids,
                  sql.Query("WITH reported (id, seen) AS (VALUES " +
                                rows.Text() +
                                ") UPDATE agents SET state = CASE agents.state "
                                "WHEN 'gone' THEN 'online' ELSE agents.state "
                                "END, last_seen_ms = reported.seen, "
                                "beats = agents.beats + 1 "
                                "FROM reported WHERE agents.id = reported.id "
                                "RETURNING agents.id",
                            rows.parameters()));
              for (const SqlRow& row : ids) found.insert(row.Text(0));
              return {};
            }));
        UCUDNN_RETURN_IF_ERROR(InPieces(
            sql.dialect(), std::span<const Reported>(devices), [&](auto piece) {
              SqlRows rows("($, CAST($ AS BIGINT), $, $, $)");
              for (const Reported& reported : piece) {
                rows.Add({reported.beat->agent, reported.beat->seen_ms,
                          reported.device->id,
                          std::string(Name(reported.device->state)),
                          reported.device->reason});
              }
              return sql.Execute(
                  "WITH reported (agent, seen, id, state, reason) AS (VALUES " +
                      rows.Text() +
                      ") UPDATE devices SET state = reported.state, "
                      "reason = reported.reason, "
                      "last_seen_ms = reported.seen FROM reported "
                      "WHERE devices.id = reported.id AND "
                      "devices.agent = reported.agent",
                  rows.parameters());
            }));
        Ids unknown;
        for (const AgentBeat* beat : agents) {
          if (!found.contains(beat->agent)) unknown.push_back(beat->agent);
        }
        return unknown;
      });
}

Status SqlStore::SetAgentState(const std::string& agent, AgentState state,
                               const std::string& reason) {
  return database_->Run(Access::kWrite, [&](SqlTransaction& sql) -> Status {
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

Status SqlStore::HoldAgent(const std::string& agent,
                           const std::optional<HoldRecord>& hold,
                           const ActionRecord& action) {
  return database_->Run(Access::kWrite, [&](SqlTransaction& sql) -> Status {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto found,
        sql.Query("SELECT id FROM agents WHERE id = $1", {agent}));
    if (found.empty()) {
      return Fail(Code::kNotFound, "there is no agent '{}'", agent);
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

Result<std::vector<Pulse>> SqlStore::ListAgentPulses() {
  return InTransaction(*database_, Access::kRead, [](SqlTransaction& sql) {
    return ReadPulses(sql,
                      "SELECT id, beats FROM agents WHERE state <> 'gone'");
  });
}

Result<std::vector<std::string>> SqlStore::ExpireAgents(
    std::span<const Pulse> silent) {
  return InTransaction(
      *database_, Access::kWrite,
      [&](SqlTransaction& sql) -> Result<std::vector<std::string>> {
        UCUDNN_ASSIGN_OR_RETURN(
            std::vector<std::string> gone,
            UpdateSilent(sql, silent,
                         "UPDATE agents SET state = 'gone' FROM silent "
                         "WHERE agents.id = silent.id AND "
                         "agents.beats = silent.beats AND "
                         "agents.state <> 'gone' RETURNING agents.id"));
        UCUDNN_RETURN_IF_ERROR(
            InPieces(sql.dialect(), std::span<const std::string>(gone),
                     [&](auto piece) -> Status {
                       SqlRows ids("$");
                       for (const std::string& id : piece) ids.Add({id});
                       const Status released = sql.Execute(
                           "UPDATE tasks SET lease_until_ms = 0 "
                           "WHERE state = 'leased' AND agent IN (" +
                               ids.Text() + ")",
                           ids.parameters());
                       if (!released) return released;
                       return sql.Execute(
                           "UPDATE devices SET state = 'lost', "
                           "reason = 'its agent is silent' "
                           "WHERE agent IN (" +
                               ids.Text() + ")",
                           ids.parameters());
                     }));
        return gone;
      });
}

Result<std::vector<AgentRecord>> SqlStore::ListAgents() {
  return InTransaction(*database_, Access::kRead, [](SqlTransaction& sql) {
    return Records(sql.Query(std::string(kSelectAgents) + "ORDER BY a.id"),
                   AgentOf);
  });
}

Result<AgentRecord> SqlStore::GetAgent(const std::string& id) {
  return InTransaction(*database_, Access::kRead, [&](SqlTransaction& sql) {
    return OneRecord(
        sql.Query(std::string(kSelectAgents) + "WHERE a.id = $1", {id}),
        AgentOf, fmt::format("agent '{}'", id));
  });
}

Result<std::vector<DeviceRecord>> SqlStore::ListDevices(
    const std::string& kind) {
  return InTransaction(*database_, Access::kRead, [&](SqlTransaction& sql) {
    return Records(sql.Query(std::string(kSelectDevices) +
                                 "WHERE $1 = '' OR d.kind = $1 ORDER BY d.id",
                             {kind}),
                   DeviceOf);
  });
}

Result<DeviceRecord> SqlStore::GetDevice(const std::string& id) {
  return InTransaction(*database_, Access::kRead, [&](SqlTransaction& sql) {
    return OneRecord(
        sql.Query(std::string(kSelectDevices) + "WHERE d.id = $1", {id}),
        DeviceOf, fmt::format("device '{}'", id));
  });
}

Result<std::int64_t> SqlStore::CountDevices() {
  return InTransaction(
      *database_, Access::kRead,
      [](SqlTransaction& sql) -> Result<std::int64_t> {
        UCUDNN_ASSIGN_OR_RETURN(
            const auto rows,
            sql.Query("SELECT COUNT(*) FROM devices WHERE state <> 'lost'"));
        return rows.at(0).Int(0);
      });
}

Result<std::vector<KindSummary>> SqlStore::ListKinds() {
  return InTransaction(*database_, Access::kRead, [](SqlTransaction& sql) {
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

}  // namespace ucudnn
