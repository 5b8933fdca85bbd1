#ifndef UCUDNN_CLIENT_TRAIN_REPORT_H_
#define UCUDNN_CLIENT_TRAIN_REPORT_H_

// The results of a training run, as ranks send them to rank 0 and as it prints
// them.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/conv_problem.h"
#include "base/result.h"
#include "base/units.h"
#include "client/training/memory_executor.h"

namespace ucudnn::train {

struct RankReport {
  // What people see of it: host, device_id, device_kind, batch, weight, of a
  // CPU host_load (HostLoad, while it trained), and if it has images, of ToJson
  // (client/training/memory_run.h).
  nlohmann::ordered_json shown;
  // On the device, for each step that counts since the last plan: until the
  // gradients were computed, and until the weights were updated.
  std::vector<Nanoseconds> passes;
  std::vector<Nanoseconds> times;
};

// For sending from rank to rank.
std::string Encode(const RankReport& report);
RankReport DecodeRankReport(const std::string& text);

struct Report {
  std::string network;
  Precision precision = Precision::kFp32;
  BatchSize batch;
  std::string split;  // planned, even or given
  std::int64_t plan_id = 0;
  std::string source;
  std::string reason;
  std::string sum_method;  // how gradients were summed, on rank 0
  // Normalisations took statistics over parts of the mini-batch, so that losses
  // depend on the shares.
  bool statistics_of_parts = false;
  // Ranks share a GPU and compute one after the other, so that each is timed as
  // if alone. Steps take longer than they would otherwise.
  bool in_turns = false;
  // Ranks share a device; if not in turns, they slow each other down.
  bool share_device = false;
  bool interrupted = false;
  std::int64_t first_step = 0;
  std::vector<double> losses;  // the mean loss of each step
  Evaluation evaluation;       // on all ranks; no labels: none
  Status evaluated;            // why there is none
  // Step (client/train/step_prediction.h); absent if ranks take turns, or NCCL
  // sums gradients but a plan keeps some on the host.
  std::optional<Nanoseconds> predicted;
  std::vector<Nanoseconds> steps;  // whole steps that count, on rank 0
  std::vector<RankReport> ranks;
};

// The slowest rank's passes of each step.
std::vector<Nanoseconds> SlowestPasses(const Report& report);
// For each step, the time that the rank that finishes its passes last waits for
// gradient sums and updates its weights: the part that passes do not hide.
std::vector<Nanoseconds> Exchanges(const Report& report);

nlohmann::ordered_json ToJson(const Report& report);
std::string ToTable(const Report& report);

}  // namespace ucudnn::train

#endif  // UCUDNN_CLIENT_TRAIN_REPORT_H_
