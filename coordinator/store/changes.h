#ifndef UCUDNN_COORDINATOR_STORE_CHANGES_H_
#define UCUDNN_COORDINATOR_STORE_CHANGES_H_

// How often what plans are made from changed. stores.h states what holds for
// every call.

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"

namespace ucudnn {

class SqlDatabase;

// Counts since the database was made. What has the same count in two answers
// did not change between them.
struct ChangeCounts {
  std::int64_t networks = 0;  // revisions added and deleted
  std::int64_t steps = 0;     // of frameworks, put and deleted
  std::int64_t deleted_plans = 0;
  // By kind: its measurements, device models, tasks that ended or were opened
  // again, and the drivers of its devices online.
  std::map<std::string, std::int64_t> kinds;
  // By kind: its cross-checks, and what devices measured of them.
  std::map<std::string, std::int64_t> cross_checks;

  friend bool operator==(const ChangeCounts&, const ChangeCounts&) = default;
};

// That of one kind; 0 if nothing of it changed yet.
inline std::int64_t CountOf(const std::map<std::string, std::int64_t>& counts,
                            const std::string& kind) {
  const auto found = counts.find(kind);
  return found == counts.end() ? 0 : found->second;
}

class Changes {
 public:
  explicit Changes(SqlDatabase& database) : database_(database) {}

  Result<ChangeCounts> CountChanges();
  // Puts together what writers have added to the counts, so that reading them
  // stays cheap. To be called every few seconds.
  Status CompactCounts();

 private:
  SqlDatabase& database_;
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_STORE_CHANGES_H_
