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

struct PlanRecord {
  std::int64_t id = 0;  // assigned by the store; ascending, with gaps
  std::int64_t revision = 1;
  std::string key;      // hash of the canonical inputs; unique
  std::string request;  // opaque to the store, as is the body
  std::string body;
  UnixMillis created_ms = 0;
  std::string memory_plans = {};  // opaque, and much larger than the body

  friend bool operator==(const PlanRecord&, const PlanRecord&) = default;
};

struct CreatedPlan {
  PlanRecord plan;
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

  // Stores the plan unless there is one with its key; `plan.id` is ignored.
  Result<CreatedPlan> CreatePlan(const PlanRecord& plan);
  // Newest first, without `memory_plans`; if `before_id` is positive, only
  // plans with smaller ids.
  Result<std::vector<PlanRecord>> ListPlans(std::int64_t limit,
                                            std::int64_t before_id = 0);
  // The ids of those plans.
  Result<std::vector<std::int64_t>> ListPlanIds(std::int64_t limit,
                                                std::int64_t before_id = 0);
  Result<PlanRecord> GetPlan(std::int64_t id);  // kNotFound
  // The plan with this key; absent if there is none.
  Result<std::optional<PlanRecord>> FindPlan(const std::string& key);
  // Notes that the plans are in use; those that do not exist are ignored.
  Status UsePlans(std::span<const std::int64_t> ids, UnixMillis now_ms);
  // Deletes the plan and records the action. kNotFound; kFailedPrecondition: a
  // job has it.
  Status DeletePlan(std::int64_t id, const ActionRecord& action);

 private:
  SqlDatabase& database_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_PLANS_H_
