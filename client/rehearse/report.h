#ifndef UCUDNN_CLIENT_REHEARSE_REPORT_H_
#define UCUDNN_CLIENT_REHEARSE_REPORT_H_

// The results of a rehearsal, as ranks send them to rank 0 and as it prints
// them.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/service/host.h"
#include "client/rehearse/workload.h"
#include "client/session/session.h"

namespace ucudnn::rehearse {

// One rank's results.
struct RankReport {
  std::string host;
  std::string device_id;
  std::string device_kind;
  std::string driver;
  BatchSize batch;
  double weight = 0;
  std::optional<Nanoseconds> predicted;
  std::optional<Timing> measured;
  std::optional<Nanoseconds> undivided_predicted;
  std::optional<Timing> undivided_measured;
  std::optional<Errors> errors;  // if requested
  bool in_turns = false;         // its device is shared with other ranks
  // Of a CPU: what its machine did while the rank was measured.
  std::optional<HostLoad> host_load;
  std::vector<std::string> fallbacks;
};

// For sending from rank to rank.
std::string Encode(const RankReport& report);
RankReport DecodeRankReport(const std::string& text);

struct Report {
  std::string network;
  BatchSize batch;
  std::int64_t plan_id = 0;
  PlanSource source = PlanSource::kUndivided;
  std::string reason;
  double tolerance = 0;
  std::vector<RankReport> ranks;
};

// The slowest rank decides: times are maxima over the ranks.
struct Total {
  std::optional<Nanoseconds> predicted;
  std::optional<Nanoseconds> measured;
  std::optional<Nanoseconds> undivided_predicted;
  std::optional<Nanoseconds> undivided_measured;
  bool checked = false;
  bool passed = true;  // all requested errors are within tolerance
};
Total TotalOf(const Report& report);

// Whether no rank measured on a machine that others kept busy.
bool Comparable(const Report& report);

// measured / predicted - 1.
std::optional<double> Deviation(std::optional<Nanoseconds> predicted,
                                std::optional<Nanoseconds> measured);

nlohmann::ordered_json ToJson(const Report& report);
std::string ToTable(const Report& report);

}  // namespace ucudnn::rehearse

#endif  // UCUDNN_CLIENT_REHEARSE_REPORT_H_
