#ifndef UCUDNN_COORDINATOR_NETWORKS_NETWORK_STORE_H_
#define UCUDNN_COORDINATOR_NETWORKS_NETWORK_STORE_H_

// Networks and their revisions. stores.h states what holds for every call.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "coordinator/store/actions.h"
#include "coordinator/store/unix_millis.h"

namespace ucudnn {

class SqlDatabase;

enum class NetworkFormat { kCsv, kOnnx };
// "csv", "onnx".
std::string_view Name(NetworkFormat format);
Result<NetworkFormat> ParseNetworkFormat(std::string_view text);

// One revision of a network.
struct NetworkRecord {
  std::string name;
  std::int64_t revision = 0;  // 1, 2, ...; assigned by the store
  NetworkFormat format = NetworkFormat::kCsv;
  std::string source;         // the file's bytes, as uploaded
  std::string layers;         // the parsed convolutions; opaque to the store
  std::string hash;           // of the content; equal hash, equal content
  UnixMillis created_ms = 0;  // of this revision

  friend bool operator==(const NetworkRecord&, const NetworkRecord&) = default;
};

class NetworkStore {
 public:
  explicit NetworkStore(SqlDatabase& database) : database_(database) {}

  // Adds a revision unless the latest one has the same hash and format. Returns
  // the latest revision's number. `network.revision` is ignored.
  Result<std::int64_t> PutNetwork(const NetworkRecord& network);
  // The latest revision of the first `limit` networks whose names come after
  // `after`, without `source`.
  Result<std::vector<NetworkRecord>> ListNetworks(
      std::int64_t limit, const std::string& after = "");
  Result<std::int64_t> CountNetworks();
  // By default the latest revision. kNotFound.
  Result<NetworkRecord> GetNetwork(
      const std::string& name,
      std::optional<std::int64_t> revision = std::nullopt);
  // The file of any revision with this hash; absent if there is none.
  Result<std::optional<std::string>> FindSource(const std::string& hash);

  // Deletes all revisions of the network and records the action. Later
  // revisions of this name count on. kNotFound.
  Status DeleteNetwork(const std::string& name, const ActionRecord& action);

 private:
  SqlDatabase& database_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_NETWORKS_NETWORK_STORE_H_
