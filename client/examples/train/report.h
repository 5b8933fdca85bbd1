#ifndef UCUDNN_CLIENT_EXAMPLES_TRAIN_REPORT_H_
#define UCUDNN_CLIENT_EXAMPLES_TRAIN_REPORT_H_

// What a training found, as its ranks tell it to rank 0 and as it prints it.

#include <cstdint>
#include <nlohmann/json.hpp>
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
  // Of the plan's convolutions in one step; absent where nothing was measured
  // before.
  std::optional<Nanoseconds> predicted;
  std::optional<Nanoseconds> convolutions;  // the same, measured
  // Of each step: both passes on the device.
  std::vector<Nanoseconds> passes;
  // Of each step: on the device, from the end of the passes until the filters
  // are new.
  std::vector<Nanoseconds> exchanges;
  std::vector<std::string> fallbacks;
};

// Between ranks.
std::string Encode(const RankReport& report);
RankReport DecodeRankReport(const std::string& text);

struct Report {
  std::string net;
  BatchSize batch;
  bool even = false;
  std::int64_t plan_id = 0;
  std::string source;
  std::string reason;
  // Ranks share a GPU, and compute one after the other so that each is timed
  // as if it were alone: a step takes longer than it would.
  bool in_turns = false;
  bool interrupted = false;
  std::int64_t first_step = 0;
  std::vector<double> losses;      // of each step from the first: the mean
  std::vector<Nanoseconds> steps;  // on rank 0: all of each
  std::vector<RankReport> ranks;
};

// The median without the first steps, which prepare what later ones have;
// absent if there is none.
std::optional<Nanoseconds> Typical(std::vector<Nanoseconds> times);
// Of each step, the slowest rank's passes.
std::vector<Nanoseconds> SlowestPasses(const Report& report);
// Of each step, for how long the rank that was last to end its passes waits for
// sums of gradients and updates its filters: what is not hidden by passes.
std::vector<Nanoseconds> Exchanges(const Report& report);

nlohmann::ordered_json ToJson(const Report& report);
std::string ToTable(const Report& report);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_EXAMPLES_TRAIN_REPORT_H_
