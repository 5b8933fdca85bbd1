#include "coordinator/networks/network_store.h"

#include <array>

#include "coordinator/store/records.h"

namespace ucudnn {
namespace {

constexpr std::array<std::string_view, 2> kFormats = {"csv", "onnx"};

// `source` is the column, or an expression in its place.
std::string SelectNetworks(const std::string& source) {
  return "SELECT r.name, r.revision, r.format, " + source +
         ", r.layers, r.hash, r.created_ms FROM network_revisions r ";
}

Result<NetworkRecord> NetworkOf(const SqlRow& row) {
  UCUDNN_ASSIGN_OR_RETURN(const NetworkFormat format,
                          ParseNetworkFormat(row.Text(2)));
  return NetworkRecord{.name = row.Text(0),
                       .revision = row.Int(1),
                       .format = format,
                       .source = row.IsNull(3) ? "" : row.Bytes(3),
                       .layers = row.Bytes(4),
                       .hash = row.Text(5),
                       .created_ms = row.Int(6)};
}

}  // namespace

std::string_view Name(NetworkFormat format) {
  return kFormats.at(static_cast<std::size_t>(format));
}
Result<NetworkFormat> ParseNetworkFormat(std::string_view text) {
  return ParseState<NetworkFormat>(kFormats, "a network's format", text);
}

Result<std::int64_t> NetworkStore::PutNetwork(const NetworkRecord& network) {
  UCUDNN_RETURN_IF_ERROR(CheckKey("the network's name", network.name));
  UCUDNN_RETURN_IF_ERROR(CheckKey("the network's hash", network.hash));
  const std::string format(Name(network.format));
  return database_.Write([&](SqlTransaction& sql) -> Result<std::int64_t> {
    // The update changes nothing but locks a known network, so that
    // concurrent calls with different content make two revisions.
    UCUDNN_ASSIGN_OR_RETURN(
        const auto latest,
        sql.Query("INSERT INTO networks (name, revision) VALUES ($1, 0) "
                  "ON CONFLICT (name) DO UPDATE SET name = excluded.name "
                  "RETURNING revision",
                  {network.name}));
    const std::int64_t revision = latest.at(0).Int(0);
    UCUDNN_ASSIGN_OR_RETURN(
        const auto same,
        sql.Query("SELECT revision FROM network_revisions WHERE name = $1 "
                  "AND revision = $2 AND hash = $3 AND format = $4",
                  {network.name, revision, network.hash, format}));
    if (!same.empty()) return revision;
    UCUDNN_RETURN_IF_ERROR(sql.Execute(
        "INSERT INTO network_revisions (name, revision, "
        "format, source, layers, hash, created_ms) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7)",
        {network.name, revision + 1, format, SqlBytes{network.source},
         SqlBytes{network.layers}, network.hash, network.created_ms}));
    UCUDNN_RETURN_IF_ERROR(
        sql.Execute("UPDATE networks SET revision = $2 WHERE name = $1",
                    {network.name, revision + 1}));
    return revision + 1;
  });
}

Result<std::vector<NetworkRecord>> NetworkStore::ListNetworks(
    std::int64_t limit, const std::string& after) {
  UCUDNN_RETURN_IF_ERROR(CheckLimit(limit));
  return database_.Read([&](SqlTransaction& sql) {
    return Records(
        sql.Query(SelectNetworks("NULL") +
                      "JOIN networks n ON n.name = r.name AND n.revision = "
                      "r.revision WHERE r.name > $1 ORDER BY r.name LIMIT $2",
                  {after, limit}),
        NetworkOf);
  });
}

Result<std::int64_t> NetworkStore::CountNetworks() {
  return database_.Read([](SqlTransaction& sql) -> Result<std::int64_t> {
    UCUDNN_ASSIGN_OR_RETURN(const auto rows,
                            sql.Query("SELECT COUNT(DISTINCT name) FROM "
                                      "network_revisions"));
    return rows.at(0).Int(0);
  });
}

Status NetworkStore::DeleteNetwork(const std::string& name,
                                   const ActionRecord& action) {
  return database_.Write([&](SqlTransaction& sql) {
    // The row in `networks` stays: it counts the revisions.
    return DeleteOne(sql,
                     "DELETE FROM network_revisions WHERE name = $1 "
                     "RETURNING revision",
                     name, fmt::format("network '{}'", name), action);
  });
}

Result<NetworkRecord> NetworkStore::GetNetwork(
    const std::string& name, std::optional<std::int64_t> revision) {
  return database_.Read([&](SqlTransaction& sql) {
    if (revision) {
      return OneRecord(
          sql.Query(SelectNetworks("r.source") +
                        "WHERE r.name = $1 AND r.revision = $2",
                    {name, *revision}),
          NetworkOf,
          fmt::format("network '{}' of revision {}", name, *revision));
    }
    return OneRecord(
        sql.Query(SelectNetworks("r.source") +
                      "JOIN networks n ON n.name = r.name AND n.revision = "
                      "r.revision WHERE r.name = $1",
                  {name}),
        NetworkOf, fmt::format("network '{}'", name));
  });
}

Result<std::optional<std::string>> NetworkStore::FindSource(
    const std::string& hash) {
  using Source = std::optional<std::string>;
  return database_.Read([&](SqlTransaction& sql) -> Result<Source> {
    UCUDNN_ASSIGN_OR_RETURN(
        const auto rows,
        sql.Query("SELECT source FROM network_revisions WHERE hash = $1 "
                  "LIMIT 1",
                  {hash}));
    return rows.empty() ? Source() : Source(rows.at(0).Bytes(0));
  });
}

}  // namespace ucudnn
