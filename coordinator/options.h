#ifndef UCUDNN_COORDINATOR_OPTIONS_H_
#define UCUDNN_COORDINATOR_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "base/units.h"

namespace ucudnn {

// For how many days what ended is kept; 0: forever.
struct KeepDays {
  std::int64_t tasks = 0;
  std::int64_t steps = 0;
  std::int64_t plans = 0;
  std::int64_t jobs = 0;

  friend bool operator==(const KeepDays&, const KeepDays&) = default;
};
inline constexpr std::int64_t kMaxKeepDays = 36'500;

struct CoordinatorOptions {
  std::string version;
  std::string database;        // for people: sqlite or postgresql
  std::int32_t grpc_port = 0;  // for people
  std::int64_t lease_ms = 30'000;
  std::int64_t heartbeat_ms = 2'000;
  // An agent that is silent for this long is gone.
  std::int64_t agent_timeout_ms = 10'000;
  // How long an idle device waits at least (kMaxPollsPerSecond).
  std::int64_t poll_after_ms = 300;
  std::int64_t report_after_ms = 2'000;  // how often ranks report their steps
  // A job that is silent for this long is lost.
  std::int64_t job_timeout_ms = 30'000;
  // The relative change of a rank's median step time that counts as drift
  // (planning/drift.h).
  double drift_tolerance = 0.10;
  // Algorithms are measured up to this workspace or a request's larger limit,
  // so that later requests with other limits need nothing new.
  Bytes measure_workspace = 1_GiB;
  // Measurements that may wait or be made at once, for all who ask together and
  // for each of them (Call::Caller). A plan of ResNet-50 for every batch up to
  // 1024 on three kinds needs some 180,000.
  std::int64_t max_queued_measurements = 1'000'000;
  std::int64_t max_queued_measurements_per_caller = 200'000;
  // Ranks of jobs that one caller may register in a day. A rank's row takes
  // some 200 bytes.
  std::int64_t max_job_ranks_per_caller = 1'000'000;
  // What ended is deleted after so long.
  KeepDays keep = {.plans = 90};
  // The search for a plan's memory plans ends with the best so far.
  std::chrono::milliseconds memory_plan_time{30'000};
};

}  // namespace ucudnn

#endif  // UCUDNN_COORDINATOR_OPTIONS_H_
