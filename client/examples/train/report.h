#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_REPORT_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_REPORT_H_

// The results of a training run, as ranks send them to rank 0 and as it prints
// them.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace ucudnn::train {

struct RankReport {
  std::string host;
  std::string device_id;
  std::string device_kind;
  BatchSize batch;
  double weight = 0;
  // The plan's convolutions in one step; absent if nothing was measured.
  std::optional<Nanoseconds> predicted;
  std::optional<Nanoseconds> convolutions;  // the same, measured
  // Both passes on the device, for each step.
  std::vector<Nanoseconds> passes;
  // Time on the device from the end of the passes until the filters are
  // updated, for each step.
  std::vector<Nanoseconds> exchanges;
  std::vector<std::string> fallbacks;
};

// For sending from rank to rank.
std::string Encode(const RankReport& report);
RankReport DecodeRankReport(const std::string& text);

struct Report {
  std::string net;
  BatchSize batch;
  bool even = false;
  std::int64_t plan_id = 0;
  std::string source;
  std::string reason;
  std::string sum_method;  // how gradients were summed, on rank 0
  // Ranks share a GPU and compute one after the other, so that each is timed as
  // if alone. Steps take longer than they would otherwise.
  bool in_turns = false;
  bool interrupted = false;
  std::int64_t first_step = 0;
  std::vector<double> losses;      // the mean loss of each step
  std::vector<Nanoseconds> steps;  // whole steps, on rank 0
  std::vector<RankReport> ranks;
};

// The median, excluding the first steps, which include preparations; absent if
// there are no times.
std::optional<Nanoseconds> Typical(std::vector<Nanoseconds> times);
// The slowest rank's passes of each step.
std::vector<Nanoseconds> SlowestPasses(const Report& report);
// For each step, the time that the rank that finishes its passes last waits for
// gradient sums and updates its filters: the part that passes do not hide.
std::vector<Nanoseconds> Exchanges(const Report& report);

nlohmann::ordered_json ToJson(const Report& report);
std::string ToTable(const Report& report);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_REPORT_H_
