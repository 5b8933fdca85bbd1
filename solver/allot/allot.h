#ifndef UCUDNN_SOLVER_ALLOT_ALLOT_H_
#define UCUDNN_SOLVER_ALLOT_ALLOT_H_

// Allots the free devices of a cluster to training jobs, and at once divides
// each job's mini-batch over its devices:
//
//   max   min_j share_j / weight_j        (kMaxMinShare), or
//   max   sum_j weight_j share_j          (kThroughput)
//   where share_j = alone_j / T_j(n_j)
//         sum_j n_jk <= free_k            (devices of each kind k)
//         least_j <= sum_k n_jk <= most_j
//
// T_j(n) is the step time of job j on n_k devices of each kind k: the slowest
// device's time under the best split of the mini-batch (solver/assign), every
// device with at least one image, plus the time of the exchange between that
// many devices. alone_j is the least step time that the job could reach if all
// free devices were its own, within its own `least` and `most`. So a share is 1
// if a job runs as fast as it ever could, and n equal jobs that scale perfectly
// have 1/n each.
//
// Method, and why it is exact: docs/allocation.md. Shares are fixed-point
// numbers, so they are compared as integers. Linear and integer programmes are
// solved by CLP and CBC: the same input gives the same answer, with the same
// libraries. Pure and thread-safe.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "solver/assign/assign.h"
#include "solver/limits.h"

namespace ucudnn {

inline constexpr std::size_t kMaxAllotKinds = 16;
inline constexpr std::int64_t kMaxAllotDevices = 4096;
inline constexpr std::size_t kMaxAllotJobs = 1024;

// A share of 1. Shares are rounded down to one part of it.
inline constexpr std::int64_t kWholeShare = 1'000'000'000'000;
// A weight of 1, and the largest weight.
inline constexpr std::int64_t kUnitWeight = 1000;
inline constexpr std::int64_t kMaxWeight = 1000 * kUnitWeight;

enum class AllotGoal { kMaxMinShare, kThroughput };

struct AllotJob {
  BatchSize batch;
  // For each kind, the times by rising batch, each batch once; a kind whose
  // table is empty cannot be used.
  std::vector<std::vector<BatchCost>> tables;
  // As in AssignProblem; for every number of devices up to `most`, or empty.
  std::vector<Nanoseconds> communication = {};
  std::int64_t weight = kUnitWeight;  // 1 to kMaxWeight
  std::int64_t least = 1;             // devices; at least 1
  std::int64_t most = kMaxAllotDevices;
};

struct AllotProblem {
  std::vector<std::int64_t> free;  // devices of each kind
  std::vector<AllotJob> jobs;
  AllotGoal goal = AllotGoal::kMaxMinShare;
};

// One device of a job.
struct DeviceShare {
  std::size_t kind = 0;
  BatchSize batch;
  Nanoseconds time{0};

  friend bool operator==(const DeviceShare&, const DeviceShare&) = default;
};

struct JobAllotment {
  std::vector<std::int64_t> devices;  // of each kind
  std::vector<DeviceShare> shares;    // of each device, kind after kind
  Nanoseconds step{0};                // with communication
  Nanoseconds alone{0};
  std::int64_t share = 0;  // alone / step, in parts of kWholeShare
};

struct Allotment {
  std::vector<JobAllotment> jobs;
  // The goal's value, in parts of kWholeShare, and what no allotment exceeds.
  std::int64_t objective = 0;
  std::int64_t bound = 0;
  bool optimal = false;  // objective == bound
  std::int64_t nodes = 0;
};

struct AllotProgress {
  std::int64_t objective = 0;  // of the best allotment so far; 0: none yet
  std::int64_t bound = 0;
  std::int64_t nodes = 0;
};

// The goal's value for these shares: the least weighted share, or the sum.
std::int64_t AllotObjective(const AllotProblem& problem,
                            const std::vector<JobAllotment>& jobs);

// The best allotment; if `limits` end the search, the best that was found, with
// a bound. Devices that raise no share further are left free. `progress`, if
// given, is called from the caller's thread whenever the best allotment or the
// bound changes.
//
// With kMaxMinShare, devices that the least share does not need go to the jobs
// that gain the most from them; the sum of the shares is not proven to be the
// largest possible.
//
// Errors: kInvalidArgument, naming the job by its index, if there is no kind or
// job, or more than the constants above, a number is out of its range, a table
// is not sorted by rising positive batch, or a time is negative or above 2^49
// ns; kFailedPrecondition if a job cannot run on the free devices even alone,
// or all jobs cannot run at once; kCancelled if `limits.stop` was requested,
// and kResourceExhausted if `limits.max_nodes` ran out, before any allotment
// was found.
Result<Allotment> SolveAllotment(
    const AllotProblem& problem, const Limits& limits = {},
    const std::function<void(const AllotProgress&)>& progress = {});

}  // namespace ucudnn

#endif  // UCUDNN_SOLVER_ALLOT_ALLOT_H_
