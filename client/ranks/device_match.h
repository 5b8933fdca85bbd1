#ifndef UCUDNN_CLIENT_RANKS_DEVICE_MATCH_H_
#define UCUDNN_CLIENT_RANKS_DEVICE_MATCH_H_

// Which device each rank of a job works on. Ranks that were not told one get
// GPUs so that no two share one while that can be avoided. GPUs are told apart
// by UUID: two ranks' "GPU 0" are different ones where the launcher shows each
// rank a GPU of its own. Pure functions.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ucudnn {

// What a rank asks for.
struct DeviceWish {
  enum class Kind { kAuto, kGpuOrdinal, kGpuUuid, kCpu };
  Kind kind = Kind::kAuto;
  int ordinal = 0;   // of kGpuOrdinal
  int threads = 0;   // of kCpu; 0: an even share of the host's cores
  std::string uuid;  // of kGpuUuid

  friend bool operator==(const DeviceWish&, const DeviceWish&) = default;
};

// "auto", "gpu:1", "GPU-<uuid>", "cpu", "cpu:4". kInvalidArgument.
Result<DeviceWish> ParseDeviceWish(std::string_view text);

// What a rank tells the others.
struct RankSight {
  std::string host;
  DeviceWish wish;
  std::vector<std::string> gpus;  // the UUIDs it sees, by ordinal
  int current = -1;  // the ordinal of the GPU it works on already; -1: none
};

// What a rank is given.
struct DeviceChoice {
  int gpu = -1;         // an ordinal of the rank's own; -1: the CPU
  int cpu_devices = 1;  // into how many parts the host's CPU is divided
  int cpu_index = 0;    // which of them is the rank's
  int cpu_threads = 0;  // 0: an even share

  friend bool operator==(const DeviceChoice&, const DeviceChoice&) = default;
};

// One choice a rank; the same for the same input. Ranks that work on a GPU
// already keep it, wishes are granted, and the others are matched to GPUs that
// nobody has, as many as can be; those that remain share the GPUs that fewest
// have. A rank that sees no GPU gets its share of the CPU. kInvalidArgument,
// naming the rank, if a GPU that is asked for is not one it sees.
Result<std::vector<DeviceChoice>> ChooseDevices(
    const std::vector<RankSight>& ranks);

}  // namespace ucudnn

#endif  // UCUDNN_CLIENT_RANKS_DEVICE_MATCH_H_
