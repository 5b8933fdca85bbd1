#ifndef UCUDNN_CLIENT_SOLVE_ALLOT_JOBS_H_
#define UCUDNN_CLIENT_SOLVE_ALLOT_JOBS_H_

// The jobs that `ucudnn allocate` allots devices to, from a file: TOML, or JSON
// with the same names.
//
//   [[jobs]]
//   name = "resnet"             # letters, digits, '.', '_' and '-'
//   network = "resnet50"        # as the profile names it
//   batch = 256
//   workspace_limit = "64MiB"   # of each kernel; or bytes
//   batch_policy = "powerOfTwo" # the default; all, undivided, adaptive
//   precision = "FP32"          # the default
//   layout = "NCHW"             # the default
//   weight = 1                  # the default; 0.001 to 1000
//   least_gpus = 1              # the default
//   most_gpus = 8               # all, unless given
//   fixed_us = 0                # what a step takes besides convolutions,
//   per_image_us = 0            #   at all and for each image of a device
//   exchange_us = [0, 90, 120]  # what it takes longer on 1, 2, ... devices
//
//   [kinds."NVIDIA H200"]       # what a cluster calls a kind, if not its model
//   slurm = "h200"              # type of GPU
//   kubernetes = "NVIDIA-H200"  # label nvidia.com/gpu.product

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/conv_problem.h"
#include "base/plan/plan.h"
#include "base/result.h"
#include "base/units.h"
#include "solver/allot/allot.h"

namespace ucudnn {

struct JobToAllot {
  std::string name;
  std::string network;
  BatchSize batch;
  Bytes workspace_limit;
  BatchPolicy policy = BatchPolicy::kPowerOfTwo;
  Precision precision = Precision::kFp32;
  Layout layout = Layout::kNchw;
  std::int64_t weight = kUnitWeight;
  std::int64_t least = 1;
  std::int64_t most = kMaxAllotDevices;
  Nanoseconds fixed{0};
  Nanoseconds per_image{0};
  std::vector<Nanoseconds> communication;
};

// What a cluster calls a kind; empty: as its model.
struct ClusterNames {
  std::string slurm;
  std::string kubernetes;
};

struct JobsToAllot {
  std::vector<JobToAllot> jobs;
  std::map<std::string, ClusterNames> kinds;
};

// The largest file that is read.
inline constexpr Bytes kMaxJobsFile = 1_MiB;

// Reads `text`, JSON if it starts with '{', otherwise TOML. kInvalidArgument,
// naming `source`, the line or the field, the value and what is accepted; also
// for unknown fields, equal names, no job, and more than kMaxAllotJobs.
Result<JobsToAllot> ParseJobsToAllot(std::string_view text,
                                     std::string_view source);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_SOLVE_ALLOT_JOBS_H_
