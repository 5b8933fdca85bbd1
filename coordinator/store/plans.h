#ifndef UCUDNN_COORDINATOR_STORE_PLANS_H_
#define UCUDNN_COORDINATOR_STORE_PLANS_H_

// Networks and the plans made for them. store.h states what holds for every
// call.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
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

// What to store of a plan. Body and outline are opaque to the store; the
// outline is what lists and jobs read, and much smaller.
struct PlanRecord {
  std::string key;  // hash of the canonical inputs; unique
  Nanoseconds predicted{0};
  UnixMillis created_ms = 0;
  std::string outline;
  std::string body;
};

struct StoredPlan {
  std::int64_t id = 0;  // assigned by the store; ascending, with gaps
  Nanoseconds predicted{0};

  friend bool operator==(const StoredPlan&, const StoredPlan&) = default;
};

struct CreatedPlan {
  StoredPlan plan;
  bool already = false;  // `plan` existed before
};

class Plans {
 public:
  explicit Plans(SqlDatabase& database) : database_(database) {}

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

  // Deletes all revisions of the network and records the action. Later
  // revisions of this name count on. kNotFound.
  Status DeleteNetwork(const std::string& name, const ActionRecord& action);

  // Stores the plan unless there is one with its key.
  Result<CreatedPlan> CreatePlan(const PlanRecord& plan);
  // Newest first; if `before_id` is positive, only smaller ids.
  Result<std::vector<std::int64_t>> ListPlanIds(std::int64_t limit,
                                                std::int64_t before_id = 0);
  Result<std::string> GetPlanBody(std::int64_t id);     // kNotFound
  Result<std::string> GetPlanOutline(std::int64_t id);  // kNotFound
  // The plan with this key; absent if there is none.
  Result<std::optional<StoredPlan>> FindPlan(const std::string& key);
  // Notes that the plans are in use; those that do not exist are ignored.
  Status UsePlans(std::span<const std::int64_t> ids, UnixMillis now_ms);
  // Deletes the plan and records the action. kNotFound; kFailedPrecondition: a
  // job has it.
  Status DeletePlan(std::int64_t id, const ActionRecord& action);

 private:
  Result<std::string> GetColumn(const char* column, std::int64_t id);

  SqlDatabase& database_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_PLANS_H_
